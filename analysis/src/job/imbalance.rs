//! Measures how unevenly the nodes of a job send.

use serde::Serialize;

/// Measures of the imbalance of values that are not negative. All are `None` if the sum is 0.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Imbalance {
    /// Max divided by the mean: 1 for equal values, and the number of nodes if one node sends
    /// everything.
    pub max_to_mean: Option<f64>,
    /// Standard deviation divided by the mean (coefficient of variation): 0 for equal values.
    pub variation: Option<f64>,
    /// Gini coefficient: 0 for equal values, nearly 1 if one of many nodes sends everything.
    pub gini: Option<f64>,
}

impl Imbalance {
    /// Evaluates the values of all nodes.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (count, sum) = (values.len() as f64, values.iter().sum::<f64>());
        if sum <= 0.0 {
            return Self::default();
        }
        let mean = sum / count;
        let variance = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;
        // The values are sorted, so the mean difference of all pairs is a sum over the ranks.
        let ranked = values
            .iter()
            .zip(1_u32..)
            .map(|(value, rank)| (2.0 * f64::from(rank) - count - 1.0) * value)
            .sum::<f64>();
        Self {
            max_to_mean: values.last().map(|most| most / mean),
            variation: Some(variance.sqrt() / mean),
            gini: Some(ranked / (count * sum)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_balanced_and_one_sender_is_not() {
        assert_eq!(
            Imbalance::of([3.0; 4]),
            Imbalance {
                max_to_mean: Some(1.0),
                variation: Some(0.0),
                gini: Some(0.0)
            }
        );
        let one = Imbalance::of([0.0, 0.0, 0.0, 8.0]);
        assert_eq!(
            one,
            Imbalance {
                max_to_mean: Some(4.0),
                variation: Some(3_f64.sqrt()),
                gini: Some(0.75)
            }
        );
        // Pairs differ by 1, 2, 1 of a mean of 2: the Gini coefficient is 8 / (2 * 9 * 2).
        assert_eq!(
            Imbalance::of([3.0, 1.0, 2.0])
                .gini
                .map(|gini| (gini * 9.0).round()),
            Some(2.0)
        );
        assert_eq!(Imbalance::of([0.0, 0.0]), Imbalance::default());
        assert_eq!(Imbalance::of([]), Imbalance::default());
    }
}
