//! All passages of a user in a row, and what a search finds of each: looking a place up is what a search does most.

/// Names a passage: seq * 4096 + part.
pub(crate) type PassageId = i64;

/// Where a passage stands among all passages of its user, from 0; good as long as nothing is learned or forgotten.
pub(crate) type Place = u32;

/// Something for some of the places of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ByPlace<T>(Vec<Option<T>>);

impl<T: Copy> ByPlace<T> {
    /// Nothing for any of so many places.
    pub(crate) fn none(places: usize) -> Self {
        Self(vec![None; places])
    }

    pub(crate) fn get(&self, place: Place) -> Option<T> {
        self.0.get(place as usize).copied().flatten()
    }

    /// The one at a place, for a change; `None` where there is no such place.
    pub(crate) fn at(&mut self, place: Place) -> Option<&mut Option<T>> {
        self.0.get_mut(place as usize)
    }

    pub(crate) fn put(&mut self, place: Place, value: T) {
        if let Some(at) = self.at(place) {
            *at = Some(value);
        }
    }

    /// Those there are, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Place, T)> + '_ {
        (0..).zip(&self.0).filter_map(|(place, value)| Some((place, (*value)?)))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
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
