//! All passages of a user in a row, and what a search finds of each: looking a place up is what a search does most.

/// Names a passage: seq * 4096 + part.
pub type PassageId = i64;

/// Where a passage stands among all passages of its user, from 0; good as long as nothing is learned or forgotten.
pub type Place = u32;

/// Something for some of the places of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct ByPlace<T>(Vec<Option<T>>);

impl<T: Copy> ByPlace<T> {
    /// Nothing for any of so many places.
    pub fn none(places: usize) -> Self {
        Self(vec![None; places])
    }

    /// What there is for a place.
    pub fn get(&self, place: Place) -> Option<T> {
        self.0.get(place as usize).copied().flatten()
    }

    /// The one at a place, for a change; `None` where there is no such place.
    pub fn at(&mut self, place: Place) -> Option<&mut Option<T>> {
        self.0.get_mut(place as usize)
    }

    /// Puts something at a place; nothing happens where there is no such place.
    pub fn put(&mut self, place: Place, value: T) {
        if let Some(at) = self.at(place) {
            *at = Some(value);
        }
    }

    /// All places, in pieces of `size` at most.
    pub(crate) fn pieces_mut(&mut self, size: usize) -> impl Iterator<Item = &mut [Option<T>]> {
        self.0.chunks_mut(size.max(1))
    }

    /// Those there are, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Place, T)> + '_ {
        (0..).zip(&self.0).filter_map(|(place, value)| Some((place, (*value)?)))
    }

    /// Those there are, for a change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_at_a_place_is_there_and_nowhere_else() {
        let mut row = ByPlace::none(3);

        row.put(1, 'b');
        row.put(7, 'z');

        assert_eq!(row.iter().collect::<Vec<_>>(), [(1, 'b')]);
        assert_eq!((row.get(1), row.get(0), row.get(7)), (Some('b'), None, None));
    }
}
