//! The state of a program: every part of it but those of the switch around the program.

use super::{Part, RestoreError, SwitchState};
use crate::coded::coded;
use crate::externs::Instance;
use crate::hash::CrcParams;
use crate::meter::{Meter, MeterImage};
use crate::profile::{Group, OneShot};
use crate::replication::{CloneSession, Replica};
use crate::state::State;
use crate::time::Time;
use pointsman_ir::{ActionCall, ExternInstanceId, KeyMatch, ValueSetId};
use std::sync::Arc;

/// Members and groups of an action profile.
struct ProfileImage {
    members: Vec<(u32, Arc<ActionCall>)>,
    groups: Vec<(u32, Group)>,
    one_shots: Vec<(u32, OneShot)>,
    next_one_shot: u32,
}

/// Multicast groups with their backups, and clone sessions.
struct ReplicationImage {
    groups: Vec<(u32, Vec<Replica>, Vec<Vec<Replica>>)>,
    sessions: Vec<(u32, CloneSession)>,
}

coded! {
    ProfileImage { members, groups, one_shots, next_one_shot }
    ReplicationImage { groups, sessions }
}

/// Meters that differ from new ones, by index.
type MeterImages = Vec<(u64, MeterImage)>;

impl State {
    /// Writes the state of the program.
    pub(crate) fn export(&self, now: Time, to: &mut SwitchState) {
        self.put_cells(&mut to.parts[Part::Cells as usize]);
        to.set(Part::Meters, &self.meter_images(now));
        to.set(Part::Profiles, &self.profile_images());
        self.put_tables(now, &mut to.parts[Part::Tables as usize]);
        to.set(Part::ValueSets, &self.value_sets);
        to.set(Part::Replication, &self.replication_image());
        to.set(Part::Hashes, &(self.hasher.crc16_custom.params(), self.hasher.crc32_custom.params()));
    }

    /// Fills this state, which is a new one of the same program.
    ///
    /// # Errors
    /// Something does not go with the program: then this state is of no use.
    pub(crate) fn restore(&mut self, now: Time, from: &SwitchState) -> Result<(), RestoreError> {
        self.take_cells_from(&from.parts[Part::Cells as usize])?;
        self.take_meters(now, from.get(Part::Meters)?)?;
        // Members and groups come before the entries that name them.
        self.take_profiles(from.get(Part::Profiles)?).map_err(|e| Part::Profiles.misfit(e))?;
        self.take_tables_from(now, &from.parts[Part::Tables as usize])?;
        self.take_value_sets(from.get(Part::ValueSets)?)?;
        self.take_replication(from.get(Part::Replication)?)?;
        let (crc16, crc32): (CrcParams, CrcParams) = from.get(Part::Hashes)?;
        self.set_crc16_custom(crc16);
        self.set_crc32_custom(crc32);
        Ok(())
    }

    fn meter_images(&self, now: Time) -> Vec<MeterImages> {
        let images = |instance: &Instance| {
            let Instance::Meter(array) = instance else { return Vec::new() };
            let cells = array.cells.shared();
            let all = cells.iter().enumerate().map(|(i, meter)| (i as u64, meter.image(now)));
            all.filter(|(_, image)| *image != MeterImage::default()).collect()
        };
        self.instances.iter().map(images).collect()
    }

    fn take_meters(&mut self, now: Time, arrays: Vec<MeterImages>) -> Result<(), RestoreError> {
        if arrays.len() != self.instances.len() {
            return Err(Part::Meters.misfit("another number of extern objects"));
        }
        for (n, images) in arrays.into_iter().enumerate() {
            for (index, image) in images {
                let meter = Meter::of_image(now, image).map_err(|e| Part::Meters.misfit(e))?;
                let place = self.meter_mut(ExternInstanceId(n as u32), index);
                *place.map_err(|e| Part::Meters.misfit(e))? = meter;
            }
        }
        Ok(())
    }

    fn profile_images(&self) -> Vec<(u32, ProfileImage)> {
        let profiles = self.instances.iter().enumerate().filter_map(|(n, instance)| match instance {
            Instance::Profile(profile) => Some((n as u32, profile)),
            _ => None,
        });
        let image = |(n, profile): (u32, &crate::ActionProfile)| {
            let image = ProfileImage {
                members: profile.members().map(|(id, call)| (id, call.clone())).collect(),
                groups: profile.groups().map(|(id, group)| (id, group.clone())).collect(),
                one_shots: profile.one_shots().map(|(id, group)| (id, group.clone())).collect(),
                next_one_shot: profile.next_one_shot(),
            };
            (n, image)
        };
        profiles.map(image).collect()
    }

    fn take_profiles(&mut self, images: Vec<(u32, ProfileImage)>) -> Result<(), crate::ProfileError> {
        for (n, image) in images {
            let id = ExternInstanceId(n);
            for (member, call) in image.members {
                self.insert_member(id, member, ActionCall::clone(&call))?;
            }
            for (number, group) in image.groups {
                self.insert_group(id, number, group)?;
            }
            for (number, group) in image.one_shots {
                self.insert_one_shot_as(id, number, group)?;
            }
            self.set_next_one_shot(id, image.next_one_shot)?;
        }
        Ok(())
    }

    fn take_value_sets(&mut self, sets: Vec<Vec<Vec<KeyMatch>>>) -> Result<(), RestoreError> {
        if sets.len() != self.value_sets.len() {
            return Err(Part::ValueSets.misfit("another number of value sets"));
        }
        for (n, members) in sets.into_iter().enumerate() {
            let set = self.set_value_set(ValueSetId(n as u32), members);
            set.map_err(|e| Part::ValueSets.misfit(e))?;
        }
        Ok(())
    }

    fn replication_image(&self) -> ReplicationImage {
        let all = &self.replication;
        let backups = |id| all.backups(id).unwrap_or_default().to_vec();
        ReplicationImage {
            groups: all.groups().map(|(id, replicas)| (id, replicas.to_vec(), backups(id))).collect(),
            sessions: all.sessions().map(|(id, session)| (id, session.clone())).collect(),
        }
    }

    fn take_replication(&mut self, image: ReplicationImage) -> Result<(), RestoreError> {
        for (id, replicas, backups) in image.groups {
            if !backups.is_empty() && backups.len() != replicas.len() {
                return Err(Part::Replication.misfit("another number of lists of backups than of replicas"));
            }
            let inserted = self.replication.insert_group_with_backups(id, replicas, backups);
            inserted.map_err(|e| Part::Replication.misfit(e))?;
        }
        for (id, session) in image.sessions {
            self.replication.insert_session(id, session).map_err(|e| Part::Replication.misfit(e))?;
        }
        Ok(())
    }
}
