//! Creates the services from the parts of the server.

use std::sync::Arc;

use super::App;
use crate::{
    ci::{kubernetes, kubernetes::PodReviewer},
    door::Services,
    fleet::{AttemptService, StatisticsService, statistics::QuestionSlots},
    runtime::answer_memory::AnswerMemory,
    sizing::SizingService,
    tickets::TicketService,
};

/// What gRPC, HTTP and the web page call.
pub(super) fn services(app: &App) -> Services {
    let verdicts = app.verdicts.clone();
    let sizing = SizingService {
        history: app.history.clone(),
        prediction_cache: Arc::default(),
        settings: Arc::new(app.config.predict.clone()),
        shadow: app.shadow.clone(),
        pools: app.pools.clone(),
        metrics: Arc::clone(&app.metrics),
        known_answers: Arc::default(),
        unmatched_projects: Arc::default(),
    };
    Services {
        attempts: AttemptService { ingest: app.ingest.clone(), verdicts: verdicts.clone() },
        statistics: StatisticsService {
            ingest: app.ingest.clone(),
            classifier: app.classifier.clone(),
            history: app.history.clone(),
            verdicts: verdicts.clone(),
            pools: app.pools.clone(),
            question_slots: QuestionSlots::new(AnswerMemory::default()),
        },
        tickets: TicketService { sizing: sizing.clone(), registry: app.tickets.clone() },
        verdicts,
        demands: app.demands.clone(),
        sizing,
    }
}

/// Creates the service that reviews pods.
pub(super) fn pod_reviewer(app: &App, services: &Services) -> PodReviewer {
    kubernetes::begin_counts(&app.metrics);
    let settings = kubernetes::Settings {
        // a pod gets no more memory than a prediction may request
        max_memory: app.config.admission.max_memory.or(app.config.predict.memory_cap),
        agent_ca: app.secrets.agent_ca.clone(),
        ..app.config.admission.clone()
    };
    PodReviewer {
        ingest: app.ingest.clone(),
        sizing: services.sizing.clone(),
        verdicts: app.verdicts.clone(),
        settings: Arc::new(settings),
        limit_ranges: app.limit_ranges.clone(),
        metrics: Arc::clone(&app.metrics),
    }
}
