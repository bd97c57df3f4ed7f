//! From what was chosen to recalls: everything that belongs to each, as it is told.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use rustc_hash::FxHashMap;
use skymem_core::{Fate, LayerError, Query, Recall, Unit};
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use crate::choose::{Candidate, Passage};
use crate::places::PassageId;
use crate::sql::Told;
use crate::tell::recall;
use crate::weigh::in_window;
use crate::{NAME, sql};

/// Recalls with their texts, provenance and surroundings, in the order of `chosen`.
pub(crate) async fn tell(
    mut connection: PoolConnection<Postgres>,
    query: &Query,
    chosen: &[Candidate],
    barred: &FxHashMap<PassageId, Fate>,
) -> Result<Vec<Recall>, LayerError> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let user = query.user;
    let made_of = made_of(&mut connection, query, chosen).await?;
    let episodes: Vec<PassageId> = made_of.iter().filter_map(MadeOf::episode).collect();
    let ids: Vec<PassageId> = made_of.iter().flat_map(MadeOf::ids).copied().collect();
    let mut told = sql::told(&mut *connection, user, &episodes, &ids).await?;
    let members: Vec<Vec<PassageId>> = made_of.iter().map(|made_of| made_of.members(&told)).collect();
    let around = around(&mut connection, query, chosen, &members).await?;
    let beside: Vec<PassageId> = around.iter().flatten().copied().collect();
    if !beside.is_empty() {
        told.extend(sql::told(&mut *connection, user, &[], &beside).await?);
    }
    let began_at: FxHashMap<PassageId, DateTime<Utc>> =
        told.iter().map(|told| (told.passage.id, told.topic_began_at)).collect();
    if let Some(known_at) = query.known_at {
        let all: Vec<PassageId> = told.iter().map(|told| told.passage.id).collect();
        let known = sql::known_by(&mut *connection, user, &all, known_at).await?;
        told.retain(|told| known.contains(&told.passage.id));
    }
    let passages: FxHashMap<PassageId, Passage> = told
        .into_iter()
        .map(|told| (told.passage.id, told.passage))
        // Nor may they stand beside what was found: in a merge, a segment, among the neighbours.
        .filter(|(id, passage)| {
            let barred = barred.contains_key(id) || in_window(query, passage);
            !barred && query.as_of.is_none_or(|as_of| passage.occurred_at <= as_of)
        })
        .collect();
    let told = |ids: &[PassageId]| ids.iter().filter_map(|id| passages.get(id)).collect::<Vec<&Passage>>();
    let recalls = chosen.iter().zip(members).zip(around).map(|((candidate, members), around)| {
        let Passage { id, topic, .. } = candidate.passage;
        let mut recall = recall(&NAME, query.unit, candidate, &told(&members));
        recall.provenance.topic = began_at.get(&id).map(|&at| (topic, at));
        recall.neighbours = told(&around).into_iter().map(Passage::line).collect();
        recall
    });
    Ok(recalls.collect())
}

/// Which passages each recall is made of.
async fn made_of(
    connection: &mut PgConnection,
    query: &Query,
    chosen: &[Candidate],
) -> Result<Vec<MadeOf>, LayerError> {
    let user = query.user;
    let passages = chosen.iter().map(|candidate| &candidate.passage);
    match query.unit {
        Unit::Turn => Ok(passages.map(|passage| MadeOf::Passages(vec![passage.id])).collect()),
        Unit::Segment => {
            let mut all = Vec::with_capacity(chosen.len());
            for passage in passages {
                let ids = sql::passages_of_segment(&mut *connection, user, &passage.session_id, passage.topic).await?;
                all.push(MadeOf::Passages(ids));
            }
            Ok(all)
        }
        Unit::Exchange => {
            let split: Vec<Uuid> = passages.clone().filter(|p| p.split).map(|p| p.exchange_id).collect();
            let questions = match split.is_empty() {
                true => HashMap::new(),
                false => sql::questions(&mut *connection, user, &split).await?,
            };
            let made_of = |passage: &Passage| {
                if !passage.split {
                    return MadeOf::Episode(passage.episode);
                }
                let question = questions.get(&passage.exchange_id).copied().filter(|&id| id != passage.id);
                MadeOf::Passages(question.into_iter().chain([passage.id]).collect())
            };
            Ok(passages.map(made_of).collect())
        }
    }
}

/// The passages around each recall, as far as the query asks for them.
async fn around(
    connection: &mut PgConnection,
    query: &Query,
    chosen: &[Candidate],
    members: &[Vec<PassageId>],
) -> Result<Vec<Vec<PassageId>>, LayerError> {
    let exchanges = i64::try_from(query.neighbours).unwrap_or(i64::MAX);
    let mut all = vec![Vec::new(); chosen.len()];
    if exchanges == 0 {
        return Ok(all);
    }
    for ((candidate, members), around) in chosen.iter().zip(members).zip(&mut all) {
        if let (Some(&first), Some(&last)) = (members.first(), members.last()) {
            let session = &candidate.passage.session_id;
            *around = sql::around(&mut *connection, query.user, session, first, last, exchanges).await?;
        }
    }
    Ok(all)
}

/// The passages that a recall is made of.
enum MadeOf {
    /// All of an episode.
    Episode(PassageId),
    /// These, in order.
    Passages(Vec<PassageId>),
}

impl MadeOf {
    fn episode(&self) -> Option<PassageId> {
        match self {
            Self::Episode(episode) => Some(*episode),
            Self::Passages(_) => None,
        }
    }

    fn ids(&self) -> &[PassageId] {
        match self {
            Self::Episode(_) => &[],
            Self::Passages(ids) => ids,
        }
    }

    /// In order, as far as they are among `told`, which stand in order.
    fn members(&self, told: &[Told]) -> Vec<PassageId> {
        match self {
            Self::Episode(episode) => {
                let of_it = told.iter().filter(|told| told.passage.episode == *episode);
                of_it.map(|told| told.passage.id).collect()
            }
            Self::Passages(ids) => ids.clone(),
        }
    }
}
