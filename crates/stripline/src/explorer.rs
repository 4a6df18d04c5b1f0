//! A breadth-first search of every state that a small system can reach, for the models of
//! protocols. Used only in tests.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// A system with all possible steps.
pub(crate) trait System: Clone + Eq + Hash + Debug {
    /// Returns every possible next step: the name of the step, and the resulting state.
    ///
    /// # Errors
    /// The step that failed, and how.
    fn steps(&self) -> Result<Vec<(&'static str, Self)>, String>;

    /// Checks the rules that must always hold.
    ///
    /// # Errors
    /// A description of the broken rule.
    fn check(&self) -> Result<(), String>;

    /// Returns whether all work is done.
    fn is_done(&self) -> bool;
}

/// A number of states that no model here reaches. A search without bounds is cut short.
const STATES_MAX: usize = 3_000_000;

/// Explores all states and returns their number.
///
/// # Errors
/// A state in which a rule does not hold, or from which the end can no longer be reached, which is
/// a deadlock or a lost wake-up. The error has the steps that lead to the state.
pub(crate) fn explore<S: System>(start: S) -> Result<usize, String> {
    let mut numbers: HashMap<S, u32> = HashMap::new();
    // By number: the state, and the step that first led to it.
    let mut states: Vec<(S, Option<(u32, &'static str)>)> = vec![(start.clone(), None)];
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    numbers.insert(start, 0);
    let mut next = 0;
    while next < states.len() {
        let state = states[next].0.clone();
        let trace = |what: String, states: &[(S, Option<(u32, &'static str)>)]| {
            Err(format!("{what}\n{}", way(states, next)))
        };
        if let Err(what) = state.check() {
            return trace(what, &states);
        }
        let steps = match state.steps() {
            Ok(steps) => steps,
            Err(what) => return trace(what, &states),
        };
        for (step, after) in steps {
            let number = *numbers.entry(after).or_insert_with_key(|after| {
                states.push((after.clone(), Some((next as u32, step))));
                before.push(Vec::new());
                states.len() as u32 - 1
            });
            before[number as usize].push(next as u32);
        }
        assert!(states.len() <= STATES_MAX, "the model has no end: {:?}", states.last());
        next += 1;
    }
    // Searches backwards from the states in which all work is done.
    let mut ends_well: Vec<bool> = states.iter().map(|(state, _)| state.is_done()).collect();
    let mut open: Vec<u32> = (0..states.len() as u32).filter(|number| ends_well[*number as usize]).collect();
    while let Some(number) = open.pop() {
        for earlier in &before[number as usize] {
            if !std::mem::replace(&mut ends_well[*earlier as usize], true) {
                open.push(*earlier);
            }
        }
    }
    match ends_well.iter().position(|ends_well| !ends_well) {
        None => Ok(states.len()),
        Some(number) => Err(format!("nothing leads on from here to the end\n{}", way(&states, number))),
    }
}

/// Returns the steps that led to a state.
fn way<S: Debug>(states: &[(S, Option<(u32, &'static str)>)], mut number: usize) -> String {
    let mut steps = vec![format!("{:?}", states[number].0)];
    while let Some((earlier, step)) = states[number].1 {
        steps.push(step.into());
        number = earlier as usize;
    }
    steps.reverse();
    steps.join("\n")
}

/// Explores two processes that each wait for the other's lock. The deadlock must be found.
#[test]
fn a_deadlock_is_found_and_a_fault_is() {
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Two {
        forks: [Option<usize>; 2],
        done: [bool; 2],
        in_order: bool,
    }
    impl System for Two {
        fn steps(&self) -> Result<Vec<(&'static str, Self)>, String> {
            let mut steps = Vec::new();
            for who in 0..2 {
                let order = if self.in_order { [0, 1] } else { [who, 1 - who] };
                let mut after = self.clone();
                match order.iter().find(|fork| self.forks[**fork] != Some(who)) {
                    _ if self.done[who] => continue,
                    None => {
                        after.done[who] = true;
                        after.forks = after.forks.map(|owner| owner.filter(|owner| *owner != who));
                    }
                    Some(&fork) if self.forks[fork].is_none() => after.forks[fork] = Some(who),
                    Some(_) => continue,
                }
                steps.push((["the first goes on", "the second goes on"][who], after));
            }
            Ok(steps)
        }

        fn check(&self) -> Result<(), String> {
            if self.in_order && self.done == [false, true] {
                Err("the second is first".into())
            } else {
                Ok(())
            }
        }

        fn is_done(&self) -> bool {
            self.done == [true; 2]
        }
    }
    let two = |in_order| Two { forks: [None; 2], done: [false; 2], in_order };
    let found = explore(two(false)).unwrap_err();
    assert!(
        found.contains("nothing leads on") && found.contains("the first goes on\nthe second goes on"),
        "{found}"
    );
    assert!(explore(two(true)).unwrap_err().contains("the second is first"));
}
