//! FLTrust (Cao et al., 2021): the server trains on a few rows it trusts, and believes those who agree with it.

use super::{ClientUpdate, Gathering, Server, Share, Strategy, Work, advance, norm};
use crate::error::{Error, Result};

/// FLTrust: an update counts by its cosine with the server's own, if positive, and is made as long as that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trust;

impl Strategy for Trust {
    fn name(&self) -> &'static str {
        "fltrust"
    }

    fn work(&self) -> Work {
        Work {
            reference: true,
            ..Work::default()
        }
    }

    fn share(&self, server: &Server, update: &ClientUpdate) -> Result<Share> {
        let own = server.reference.as_ref().ok_or_else(|| {
            Error::Setting("fltrust needs rows that the server trusts; name them with `trusted`".into())
        })?;
        let (mine, theirs) = (norm(own), norm(&update.delta));
        if mine == 0.0 || theirs == 0.0 {
            return Ok(Share::weight(0.0));
        }
        let product: f64 = own
            .iter()
            .zip(&update.delta)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum();
        let trust = (product / (mine * theirs)).max(0.0);
        Ok(Share {
            delta: trust * mine / theirs,
            ..Share::weight(trust)
        })
    }

    fn step(&self, server: &mut Server, gathered: &Gathering) -> Result<()> {
        let sums = gathered.sums()?;
        advance(&mut server.weights, sums.mean());
        server.reference = None;
        server.version += 1;
        Ok(())
    }
}
