//! The switch as other threads have it.

use super::Core;
use crate::switch::gnmi::model::Interface;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// Something to do on the control plane's thread.
pub type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// Handle to the switch for other threads.
#[derive(Clone)]
pub struct Handle {
    pub(super) jobs: Sender<Job>,
}

/// The switch has ended.
#[derive(Debug)]
pub struct Gone;

impl Handle {
    /// Of a switch that has ended.
    #[cfg(test)]
    pub(crate) fn gone() -> Handle {
        Handle { jobs: std::sync::mpsc::channel().0 }
    }

    /// Runs `job` on the control plane's thread.
    pub fn post(&self, job: impl FnOnce(&mut Core) + Send + 'static) -> Result<(), Gone> {
        self.jobs.send(Box::new(job)).map_err(|_| Gone)
    }

    /// Runs `job` there, and returns its answer.
    pub async fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (tx, rx) = oneshot::channel();
        self.post(move |core| {
            // The caller may have disconnected: then the answer is discarded.
            let _ = tx.send(job(core));
        })?;
        rx.await.map_err(|_| Gone)
    }

    /// The ports as they are now.
    ///
    /// # Errors
    /// The switch has ended.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Gone> {
        let asked = self.call(|core| core.ask_workers()).await??;
        let mut all: Vec<Interface> = Vec::new();
        for answer in asked {
            let interfaces = answer.await.map_err(|_| Gone)?;
            if all.is_empty() {
                all = interfaces;
                continue;
            }
            // Workers have the same ports in the same order, and each its share of the traffic.
            all.iter_mut().zip(&interfaces).for_each(|(sum, more)| sum.counters.add(&more.counters));
        }
        Ok(all)
    }

    /// Ends the switch.
    pub fn stop(&self) {
        // If it has ended already, all the better.
        let _ = self.post(|core| core.stop = true);
    }
}
