//! When clients come back: together while they are few, spread out when they are many.

use serde::{Deserialize, Serialize};

use super::settings::setting;
use super::{ReconnectWindow, Time, TimeSpan};
use crate::select::Diurnal;
use crate::{ClientId, Random, Result};

/// Names the stream of random numbers that spreads clients out.
const SPREAD: u64 = 0x7061_6365;

/// Pace steering: the server tells clients when to return and keeps no record of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// How often a round is hoped for. Few clients are all sent to the next whole multiple of it.
    pub period: TimeSpan,
    /// Up to how many times the invited clients a population counts as few.
    pub herd_up_to: f64,
    /// How many times as many check-ins as needed are hoped for in a period, when there are many clients.
    pub margin: f64,
    /// How the number of clients that are there swings over the day, if it is known to.
    pub load: Option<Diurnal>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            period: TimeSpan::seconds(60.0),
            herd_up_to: 10.0,
            margin: 2.0,
            load: None,
        }
    }
}

impl Pace {
    pub(super) fn check(&self) -> Result<()> {
        if self.period.0 == 0 {
            return setting("pace.period must be longer than 0");
        }
        if !(self.herd_up_to >= 0.0 && self.herd_up_to.is_finite()) {
            return setting("pace.herd_up_to must be a number from 0 on");
        }
        if !(self.margin > 0.0 && self.margin.is_finite()) {
            return setting("pace.margin must be above 0");
        }
        self.load.as_ref().map_or(Ok(()), Diurnal::check)
    }

    /// When a client that was sent away at `now` is to come back, if rounds need `wanted` clients of so many.
    pub fn retry(
        &self,
        seed: u64,
        client: ClientId,
        now: Time,
        wanted: usize,
        clients: Option<u64>,
    ) -> ReconnectWindow {
        let wanted = wanted.max(1) as f64;
        match clients {
            Some(clients) if clients as f64 <= wanted * self.herd_up_to => self.together(now),
            Some(clients) => self.apart(seed, client, now, clients as f64 / (wanted * self.margin)),
            None => self.apart(seed, client, now, 1.0),
        }
    }

    fn together(&self, now: Time) -> ReconnectWindow {
        let period = self.period.0.max(1);
        let from = Time((now.0 / period).saturating_add(1).saturating_mul(period));
        ReconnectWindow {
            from,
            to: from + TimeSpan(period / 16),
        }
    }

    /// Spreads over so many periods on average, longer if at the time of return more clients than usual are there.
    fn apart(&self, seed: u64, client: ClientId, now: Time, periods: f64) -> ReconnectWindow {
        let mean = self.period.times(periods.max(1.0));
        let crowd = self.load.as_ref().map_or(1.0, |load| load.crowd(now + mean));
        let mean = mean.times(crowd);
        let share = Random::new(seed, &[SPREAD, client.0, now.0]).uniform();
        let from = now + mean.times(0.5 + share * 0.875);
        ReconnectWindow {
            from,
            to: from + mean.times(0.125),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(pace: &Pace, now: Time, clients: u64) -> Vec<ReconnectWindow> {
        (0..clients.min(20_000))
            .map(|c| pace.retry(3, ClientId(c), now, 100, Some(clients)))
            .collect()
    }

    #[test]
    fn few_clients_come_back_together_even_if_sent_away_at_different_times() {
        let pace = Pace::default();
        let early = windows(&pace, Time(61_000), 1000);
        let late = windows(&pace, Time(119_000), 1000);
        assert!(early.iter().chain(&late).all(|w| *w == early[0]));
        assert_eq!(early[0].from, Time(120_000));
    }

    #[test]
    fn many_clients_come_back_spread_out_at_the_rate_that_rounds_need() {
        let (pace, now, clients) = (Pace::default(), Time(1_000_000), 1_000_000);
        let delays: Vec<f64> = windows(&pace, now, clients)
            .iter()
            .map(|w| (w.from - now).as_seconds())
            .collect();
        // Twice 100 check-ins a minute from a million clients: each comes every 5000 minutes.
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean / (5000.0 * 60.0) - 0.9375).abs() < 0.01, "{mean}");
        let tenth = delays.iter().filter(|&&d| d < 0.5875 * 300_000.0).count();
        assert!((tenth as f64 / 20_000.0 - 0.1).abs() < 0.01, "{tenth}");
    }

    #[test]
    fn clients_wait_longer_when_many_are_there_and_on_average_as_long_as_ever() {
        let load = Diurnal {
            peak: 12.0,
            ..Diurnal::default()
        };
        let pace = Pace {
            load: Some(load),
            ..Pace::default()
        };
        let delay = |hour: u64| {
            let now = Time(hour * 3_600_000);
            let all = windows(&pace, now, 20_000);
            all.iter().map(|w| (w.from - now).as_seconds()).sum::<f64>() / all.len() as f64
        };
        let (noon, night) = (delay(10), delay(22));
        assert!((noon / night - 4.0).abs() < 0.3, "{noon} {night}");
    }

    #[test]
    fn windows_are_a_function_of_seed_client_and_time() {
        let pace = Pace::default();
        let of = |seed, client, now| pace.retry(seed, ClientId(client), Time(now), 10, Some(1_000_000));
        assert_eq!(of(1, 2, 3), of(1, 2, 3));
        assert_ne!(of(1, 2, 3), of(2, 2, 3));
        assert_ne!(of(1, 2, 3), of(1, 3, 3));
    }
}
