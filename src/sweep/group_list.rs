//! The counter groups of a sweep, without duplicates.

use std::ops::Deref;

use ibnet_record::attributes::Group;

/// An ordered list of counter groups without duplicates.
///
/// The list cannot be longer than [`Group::ALL`], so a mask of 32 bits and an array of 32 entries
/// always have a position for each group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupList(Vec<Group>);

/// Max number of groups in masks and arrays.
pub(super) const MAX_GROUPS: usize = 32;

const _: () = assert!(Group::ALL.len() <= MAX_GROUPS);

impl FromIterator<Group> for GroupList {
    /// Keeps the first occurrence of each group and drops the others.
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        let mut list = Vec::with_capacity(Group::ALL.len());
        for group in groups {
            if !list.contains(&group) {
                list.push(group);
            }
        }
        Self(list)
    }
}

impl From<Vec<Group>> for GroupList {
    fn from(groups: Vec<Group>) -> Self {
        groups.into_iter().collect()
    }
}

impl From<&[Group]> for GroupList {
    fn from(groups: &[Group]) -> Self {
        groups.iter().copied().collect()
    }
}

impl<const N: usize> From<[Group; N]> for GroupList {
    fn from(groups: [Group; N]) -> Self {
        groups.into_iter().collect()
    }
}

impl Deref for GroupList {
    type Target = [Group];

    fn deref(&self) -> &[Group] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_keeps_the_order_and_drops_duplicates() {
        let list = GroupList::from(vec![Group::Base, Group::Extended, Group::Base]);
        assert_eq!(*list, [Group::Base, Group::Extended]);
    }

    #[test]
    fn list_cannot_outgrow_the_masks() {
        let list: GroupList = Group::ALL.into_iter().cycle().take(100).collect();
        assert_eq!(list.len(), Group::ALL.len());
    }
}
