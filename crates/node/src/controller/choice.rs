//! Services whose device is chosen through Prometheus: sends the choosers' queries, and passes their choices to the controller.

use super::Command;
use super::query::query;
use pointsman_balance::DeviceNumber;
use pointsman_balance::config::PrometheusChoice;
use pointsman_balance::controller::Input as ToController;
use pointsman_balance::mcdm::chooser::{Chooser, Input, Output};
use std::collections::BTreeSet;
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The choosers that run.
pub(super) struct Choosers {
    commands: UnboundedSender<Command>,
    running: Vec<Running>,
}

/// One that runs.
struct Running {
    choice: PrometheusChoice,
    /// The devices that it avoids.
    avoided: BTreeSet<DeviceNumber>,
    tell: UnboundedSender<Input>,
    task: JoinHandle<()>,
}

impl Choosers {
    /// None so far. They send their choices through `commands`.
    pub fn new(commands: UnboundedSender<Command>) -> Choosers {
        Choosers { commands, running: Vec::new() }
    }

    /// Runs exactly the choosers of the configuration. One with unchanged settings keeps running. `avoided`: the devices of a service
    /// that are not to be chosen.
    pub fn follow(&mut self, wanted: &[PrometheusChoice], avoided: impl Fn(&str) -> BTreeSet<DeviceNumber>) {
        let (keep, end): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|r| wanted.contains(&r.choice));
        self.running = keep;
        for Running { choice, task, .. } in end {
            task.abort();
            // Its choice no longer counts. A remaining chooser for the same service sends one soon.
            let _ = self.commands.send(chosen(&choice, None));
        }
        for choice in wanted {
            if self.running.iter().all(|r| r.choice != *choice) {
                let (tell, inputs) = unbounded_channel();
                let task = tokio::spawn(run(choice.clone(), self.commands.clone(), (tell.clone(), inputs)));
                self.running.push(Running { choice: choice.clone(), avoided: BTreeSet::new(), tell, task });
            }
        }
        for running in &mut self.running {
            let avoided = avoided(&running.choice.service);
            if avoided != running.avoided {
                running.avoided.clone_from(&avoided);
                // A closed receiver: the task is about to stop.
                let _ = running.tell.send(Input::Avoid(avoided));
            }
        }
    }
}

impl Drop for Choosers {
    fn drop(&mut self) {
        self.running.iter().for_each(|r| r.task.abort());
    }
}

fn chosen(choice: &PrometheusChoice, device: Option<DeviceNumber>) -> Command {
    Command::Input(ToController::Choose { service: choice.service.clone(), device })
}

/// The weights of the criteria, as text.
fn weights(choice: &PrometheusChoice) -> String {
    let total: f64 = choice.settings.criteria.iter().map(|(_, c)| c.weight).sum();
    let one = |(name, (_, c)): (&String, &(String, pointsman_decide::promethee::Criterion))| {
        format!("{name} {:.3} ({})", c.weight / total, c.goal)
    };
    let all: Vec<String> = choice.names.iter().zip(&choice.settings.criteria).map(one).collect();
    format!("{} (consistency ratio {:.3})", all.join(", "), choice.ratio)
}

async fn run(
    choice: PrometheusChoice,
    commands: UnboundedSender<Command>,
    (tell, mut inputs): (UnboundedSender<Input>, UnboundedReceiver<Input>),
) {
    let say = |text: String| {
        // A closed receiver: the task is about to stop.
        let _ = commands.send(Command::Say(format!("service `{}`: {text}", choice.service)));
    };
    say(format!("queries {} for {}", choice.url, weights(&choice)));
    let start = Instant::now();
    let patience = choice.settings.patience;
    let mut chooser = Chooser::new(choice.settings.clone());
    loop {
        let wait = tokio::time::sleep_until((start + chooser.next_deadline()).into());
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            () = wait => Input::Tick,
        };
        for output in chooser.step(start.elapsed(), input) {
            match output {
                Output::Query { id, promql } => {
                    let (url, tell) = (choice.url.clone(), tell.clone());
                    tokio::spawn(async move {
                        let result = query(&url, &promql, patience).await;
                        let _ = tell.send(Input::Answer { id, result });
                    });
                }
                Output::Choose(device) => {
                    if commands.send(chosen(&choice, device)).is_err() {
                        return;
                    }
                }
                Output::Note(text) => say(text),
            }
        }
    }
}
