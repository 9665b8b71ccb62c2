//! The ledger over gRPC: what workers store and read through this gateway.
//!
//! *Invariant:* a worker acts for workspaces only that its principal sees, and changes only what it holds; nothing here settles a
//! prompt, and nothing reads the audit or the journal. What is of another workspace is not there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use toolgate_contract::cluster::ledger_service_server::{LedgerService, LedgerServiceServer};
use toolgate_contract::cluster::*;
use toolgate_ledger::wire::{self, MAX_MESSAGE_BYTES, MAX_PIECE_BYTES};
use toolgate_model::{
    CallEvent, CallId, CallRecord, Facts, GrantId, InstanceId, OutputId, PromptId, SessionId, Timestamp, WorkspaceSet,
};
use toolgate_server::grpc::{Closing, status};
use toolgate_store::ledger::{Bound, Hold, Ledger};
use toolgate_store::{
    CallFilter, Created, OutputFilter, OutputInfo, OutputOwner, PromptFilter, SessionFilter, StoreError,
};
use toolgate_telemetry::{FleetFacts, Metrics};

use crate::bindings::Bindings;
use crate::followers::Followers;
use crate::ledger_access::{self, Caller, MAX_UNHELD_BYTES, must_fit, read_notes};
use crate::ledger_limit::InTime;
use crate::ledger_load::Loaded;
use crate::ledger_messages::*;
use crate::ledger_rate::StoreRate;
use crate::ledger_tasks::{self, Renewals, Seen};

/// Bytes of a page of events, beyond its first one.
const PAGE_BYTES: usize = 4 << 20;

/// Events that are read at once.
const MAX_EVENTS: usize = 1_000;

/// Bytes of an output that are read at once.
const MAX_READ_BYTES: usize = 8 << 20;

/// Prompts of a list.
const MAX_PROMPTS: usize = 10_000;

type Answer<T> = Result<Response<T>, Status>;

/// What a gateway with a store does for workers.
#[derive(Clone)]
pub(crate) struct LedgerDoor {
    ledger: Arc<dyn Ledger>,
    bindings: Arc<Bindings>,
    renewals: Arc<Renewals>,
    followers: Arc<Followers>,
    seen: Arc<Seen>,
    closing: Closing,
}

impl LedgerDoor {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, bindings: Arc<Bindings>, closing: Closing) -> Self {
        Self {
            bindings,
            renewals: Renewals::new(Arc::clone(&ledger)),
            followers: Arc::default(),
            seen: Arc::default(),
            ledger,
            closing,
        }
    }

    /// Returns the service.
    pub(crate) fn service(&self, rate: StoreRate, metrics: &Arc<Metrics>) -> Loaded {
        let service = LedgerServiceServer::new(InTime(self.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Loaded::new(service, rate, metrics)
    }

    /// Returns how long the lease of a worker lasts.
    pub(crate) fn lease(&self) -> Duration {
        self.ledger.lease()
    }

    /// Returns what operators are told; so many workers wait for a workspace.
    pub(crate) fn facts(&self, unbound: usize) -> FleetFacts {
        FleetFacts {
            unbound: unbound as u64,
            lag: Duration::from_millis(self.seen.lag_millis.load(Ordering::Relaxed)),
            expired: self.ledger.expired(),
            lost: self.seen.lost.load(Ordering::Relaxed),
        }
    }

    /// Does what is to be done beside requests, until `stop`.
    pub(crate) async fn work(self, stop: CancellationToken) {
        ledger_tasks::run(self.ledger, self.followers, self.seen, stop).await;
    }

    /// Takes note that the connection to a run of this principal broke, which was last heard so long ago; false if the store was not told.
    pub(crate) async fn doubt(&self, run: &str, principal: &str, silence: Duration) -> bool {
        let doubted = self.ledger.doubt_after(&InstanceId::new(run), principal, silence).await;
        if let Err(error) = &doubted {
            tracing::warn!(%error, run, "a worker that is not heard of may live until its lease is over");
        }
        doubted.is_ok()
    }

    /// Reads a holding of a run that is the caller's.
    async fn own(&self, caller: &Caller, holding: Option<Holding>) -> Result<Hold, Status> {
        let hold = caller.hold(holding).await?;
        let is_own = self.ledger.is_run_of(&hold.run, &hold.principal).await;
        let none = || {
            refused(StoreError::Fenced(format!(
                "this worker has no run {} any more",
                hold.run
            )))
        };
        is_own.map_err(refused)?.then_some(()).ok_or_else(none)?;
        Ok(hold)
    }

    /// Reads a holding. Of one with which much is to be stored it is known that it holds before that is read.
    async fn held(&self, caller: &Caller, holding: Option<Holding>, bytes: usize) -> Result<Hold, Status> {
        let hold = caller.hold(holding).await?;
        if bytes > MAX_UNHELD_BYTES {
            self.ledger.must_hold(&hold).await.map_err(refused)?;
        }
        Ok(hold)
    }

    /// Returns a call of these workspaces.
    async fn call(&self, id: &CallId, workspaces: &WorkspaceSet) -> Result<Option<CallRecord>, Status> {
        let record = self.ledger.get(id).await.map_err(refused)?;
        Ok(record.filter(|record| workspaces.contains(&record.origin.workspace)))
    }

    /// Returns what is known of an output of these workspaces.
    async fn output(&self, id: &OutputId, workspaces: &WorkspaceSet) -> Result<Option<OutputInfo>, Status> {
        let info = self.ledger.look(id).await.map_err(refused)?;
        Ok(info.filter(|info| workspaces.contains(&info.owner.workspace)))
    }
}

#[tonic::async_trait]
impl LedgerService for LedgerDoor {
    async fn bind(&self, request: Request<BindRequest>) -> Answer<BindResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let workspaces = caller.wanted(asked.workspaces).await?;
        let run = ledger_access::run(asked.run)?;
        let lease_millis = u64::try_from(self.ledger.lease().as_millis()).unwrap_or(u64::MAX);
        let bound = self.ledger.bind(&run, &caller.id(), &asked.address, &workspaces).await;
        Ok(Response::new(match bound.map_err(refused)? {
            Bound::Now(holds) => {
                if asked.noted > 0 {
                    self.ledger.has_noted(&run, asked.noted).await.map_err(refused)?;
                }
                // Only what was asked for: the caller may not see the rest.
                let holds = holds.iter().filter(|hold| workspaces.contains(&hold.workspace));
                BindResponse {
                    holdings: holds.map(wire::holding).collect(),
                    held: None,
                    lease_millis,
                }
            }
            // By whom is not for everybody.
            Bound::Held { workspace, retry, .. } => BindResponse {
                holdings: Vec::new(),
                lease_millis,
                held: Some(Held {
                    workspace,
                    retry_millis: u64::try_from(retry.as_millis()).unwrap_or(u64::MAX),
                }),
            },
        }))
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Answer<RenewLeaseResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let own = self.own(&caller, asked.holding).await?;
        let mut holds = Vec::new();
        for holding in asked.holdings {
            let hold = caller.hold(Some(holding)).await?;
            if hold.run != own.run {
                return Err(status::bad_field("holdings", "expected those of one run"));
            }
            holds.push(hold);
        }
        let (renewed, gone) = self.renewals.renew(own.run, holds).await.map_err(refused)?;
        let gone = gone.iter().map(wire::holding).collect();
        Ok(Response::new(RenewLeaseResponse { renewed, gone }))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Answer<ReleaseResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = self.own(&caller, asked.holding).await?;
        self.ledger.release(&hold.run).await.map_err(refused)?;
        Ok(Response::new(ReleaseResponse {}))
    }

    async fn create_call(&self, request: Request<CreateCallRequest>) -> Answer<CreateCallResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        must_fit("a record", &asked.record)?;
        let bytes = asked.record.len() + asked.events.len() + asked.notes.len();
        let hold = self.held(&caller, asked.holding, bytes).await?;
        let (record, events) = caller.change(&asked.record, &asked.events)?;
        let (notes, noted) = caller.notes(asked.first_note, &asked.notes)?;
        let created = self.ledger.create_call_with(&hold, notes, record, events, asked.again);
        let taken = match created.await.map_err(refused)? {
            Created::New => Vec::new(),
            Created::Taken(record) => write(&*record)?,
        };
        Ok(Response::new(CreateCallResponse { taken, noted }))
    }

    async fn append_events(&self, request: Request<AppendEventsRequest>) -> Answer<AppendEventsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        must_fit("a record", &asked.record)?;
        let bytes = asked.record.len() + asked.events.len() + asked.notes.len();
        let hold = self.held(&caller, asked.holding, bytes).await?;
        let (record, events) = caller.change(&asked.record, &asked.events)?;
        let (notes, noted) = caller.notes(asked.first_note, &asked.notes)?;
        let appended = self.ledger.append_with(&hold, notes, record, events, asked.again);
        appended.await.map_err(refused)?;
        Ok(Response::new(AppendEventsResponse { noted }))
    }

    async fn get_call(&self, request: Request<GetCallRequest>) -> Answer<GetCallResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let (id, reads) = (CallId::new(asked.id), caller.reads(asked.workspaces).await?);
        let record = write_optional(self.call(&id, &reads).await?.as_ref())?;
        Ok(Response::new(GetCallResponse { record }))
    }

    async fn find_namesakes(&self, request: Request<FindNamesakesRequest>) -> Answer<FindNamesakesResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let reads = caller.reads(asked.workspaces).await?;
        let mut ids = Vec::new();
        for id in self.ledger.namesakes(&CallId::new(asked.id)).await.map_err(refused)? {
            if self.call(&id, &reads).await?.is_some() {
                ids.push(id.to_string());
            }
        }
        Ok(Response::new(FindNamesakesResponse { ids }))
    }

    async fn read_events(&self, request: Request<ReadEventsRequest>) -> Answer<ReadEventsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let id = CallId::new(asked.id);
        if self.call(&id, &caller.reads(asked.workspaces).await?).await?.is_none() {
            let events = write::<[CallEvent]>(&[])?;
            return Ok(Response::new(ReadEventsResponse { events, more: false }));
        }
        let wanted = count(asked.limit, MAX_EVENTS);
        let events = self.ledger.events(&id, asked.after, wanted).await.map_err(refused)?;
        let (mut page, mut more) = (vec![b'['], asked.limit as usize > wanted && events.len() == wanted);
        for (at, event) in events.iter().enumerate() {
            let json = write(event)?;
            if at > 0 {
                if page.len() + json.len() > PAGE_BYTES {
                    more = true;
                    break;
                }
                page.push(b',');
            }
            page.extend(json);
        }
        page.push(b']');
        Ok(Response::new(ReadEventsResponse { events: page, more }))
    }

    async fn list_calls(&self, request: Request<ListCallsRequest>) -> Answer<ListCallsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let filter = CallFilter {
            workspaces: caller.reads(asked.workspaces).await?,
            ..read("filter", &asked.filter)?
        };
        let listed = self.ledger.list_calls(&filter, &page(asked.page)?).await;
        let listed = listed.map_err(refused)?;
        Ok(Response::new(ListCallsResponse {
            records: write(&listed.items)?,
            next: listed.next.unwrap_or_default(),
        }))
    }

    async fn list_sessions(&self, request: Request<ListSessionsRequest>) -> Answer<ListSessionsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let filter = SessionFilter {
            workspaces: caller.reads(asked.workspaces).await?,
            ..read("filter", &asked.filter)?
        };
        let listed = self.ledger.list_sessions(&filter, &page(asked.page)?).await;
        let listed = listed.map_err(refused)?;
        Ok(Response::new(ListSessionsResponse {
            sessions: write(&listed.items)?,
            next: listed.next.unwrap_or_default(),
        }))
    }

    async fn adopt_calls(&self, request: Request<AdoptCallsRequest>) -> Answer<AdoptCallsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let adopted = self.ledger.adopt_for(&hold).await.map_err(refused)?;
        let records = write(&adopted)?;
        Ok(Response::new(AdoptCallsResponse { records }))
    }

    async fn open_prompt(&self, request: Request<OpenPromptRequest>) -> Answer<OpenPromptResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        must_fit("a prompt", &asked.prompt)?;
        must_fit("an asker", &asked.asker)?;
        let bytes = asked.prompt.len() + asked.asker.len();
        let hold = self.held(&caller, asked.holding, bytes).await?;
        let (prompt, asker) = (read("prompt", &asked.prompt)?, read_optional("asker", &asked.asker)?);
        let grants = asked.judged_by.map(|judged| judged.grants);
        let judged_by = grants.map(|grants| grants.into_iter().map(GrantId::new).collect());
        let opened = self.ledger.open_for(&hold, prompt, asker, judged_by, asked.again).await;
        let grants = opened.map_err(refused)?;
        self.followers.look();
        let grants = write(&grants)?;
        Ok(Response::new(OpenPromptResponse { grants }))
    }

    async fn replace_asker(&self, request: Request<ReplaceAskerRequest>) -> Answer<ReplaceAskerResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        must_fit("an asker", &asked.asker)?;
        let hold = self.held(&caller, asked.holding, asked.asker.len()).await?;
        let asker = read_optional("asker", &asked.asker)?;
        let replaced = self
            .ledger
            .replace_asker_for(&hold, &PromptId::new(asked.id), asker)
            .await;
        replaced.map_err(refused)?;
        Ok(Response::new(ReplaceAskerResponse {}))
    }

    async fn get_prompt(&self, request: Request<GetPromptRequest>) -> Answer<GetPromptResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let reads = caller.reads(asked.workspaces).await?;
        let found = self.ledger.asked(&PromptId::new(asked.id)).await.map_err(refused)?;
        let found = found.filter(|found| reads.contains(&found.prompt.workspace));
        let asked = write_optional(found.as_ref())?;
        Ok(Response::new(GetPromptResponse { asked }))
    }

    async fn list_asked_prompts(&self, request: Request<ListAskedPromptsRequest>) -> Answer<ListAskedPromptsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        caller.must_see("workspace", &asked.workspace).await?;
        let session = session(asked.workspace, asked.session);
        let found = self.ledger.asked_in(&session).await.map_err(refused)?;
        let asked = write(&found)?;
        Ok(Response::new(ListAskedPromptsResponse { asked }))
    }

    async fn list_open_prompts(&self, request: Request<ListOpenPromptsRequest>) -> Answer<ListOpenPromptsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let reads = caller.reads(asked.workspaces).await?;
        let open = self
            .ledger
            .open_prompts_in(&reads, MAX_PROMPTS)
            .await
            .map_err(refused)?;
        let prompts = open.into_iter().map(|(id, revision)| OpenPrompt {
            id: id.to_string(),
            revision,
        });
        Ok(Response::new(ListOpenPromptsResponse {
            prompts: prompts.collect(),
        }))
    }

    async fn list_interests(&self, request: Request<ListInterestsRequest>) -> Answer<ListInterestsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let workspaces = caller.reads(asked.workspaces).await?;
        let names: Vec<String> = workspaces.names().map(str::to_owned).collect();
        let seen = self.ledger.interests_in(&names).await.map_err(refused)?;
        let interests = wire::json("what approvers listen to", &seen).map_err(refused)?;
        Ok(Response::new(ListInterestsResponse { interests }))
    }

    async fn list_prompts(&self, request: Request<ListPromptsRequest>) -> Answer<ListPromptsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let filter = PromptFilter {
            workspaces: caller.reads(asked.workspaces).await?,
            ..read("filter", &asked.filter)?
        };
        let found = self.ledger.prompts_for(&filter, count(asked.limit, MAX_PROMPTS)).await;
        let prompts = write(&found.map_err(refused)?)?;
        Ok(Response::new(ListPromptsResponse { prompts }))
    }

    async fn end_prompt(&self, request: Request<EndPromptRequest>) -> Answer<EndPromptResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        must_fit("a settlement", &asked.settlement)?;
        let hold = self.held(&caller, asked.holding, asked.settlement.len()).await?;
        let end = read("settlement", &asked.settlement)?;
        let settled = self.ledger.end_prompt_for(&hold, end).await.map_err(refused)?;
        self.followers.look();
        let settled = write(&settled)?;
        Ok(Response::new(EndPromptResponse { settled }))
    }

    async fn use_grants(&self, request: Request<UseGrantsRequest>) -> Answer<UseGrantsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let ids: Vec<GrantId> = asked.ids.into_iter().map(GrantId::new).collect();
        let now = Timestamp(asked.now_millis);
        let missing = self.ledger.use_grants_for(&hold, &ids, now).await.map_err(refused)?;
        Ok(Response::new(UseGrantsResponse {
            missing: missing.iter().map(ToString::to_string).collect(),
        }))
    }

    async fn list_grants(&self, request: Request<ListGrantsRequest>) -> Answer<ListGrantsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let reads = caller.reads(asked.workspaces).await?;
        let mut grants = self.ledger.grants(&InstanceId::new(asked.run)).await.map_err(refused)?;
        grants.retain(|grant| reads.contains(&grant.workspace));
        let grants = write(&grants)?;
        Ok(Response::new(ListGrantsResponse { grants }))
    }

    async fn get_grant(&self, request: Request<GetGrantRequest>) -> Answer<GetGrantResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let reads = caller.reads(asked.workspaces).await?;
        let grant = self.ledger.grant(&GrantId::new(asked.id)).await.map_err(refused)?;
        let grant = grant.filter(|grant| reads.contains(&grant.workspace));
        let grant = write_optional(grant.as_ref())?;
        Ok(Response::new(GetGrantResponse { grant }))
    }

    async fn revoke_grant(&self, request: Request<RevokeGrantRequest>) -> Answer<RevokeGrantResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let revoked = self.ledger.revoke_for(&hold, &GrantId::new(asked.id), &asked.by).await;
        let grant = write_optional(revoked.map_err(refused)?.as_ref())?;
        Ok(Response::new(RevokeGrantResponse { grant }))
    }

    async fn store_notes(&self, request: Request<StoreNotesRequest>) -> Answer<StoreNotesResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = self.held(&caller, asked.holding, asked.notes.len()).await?;
        let notes = caller.stored(read_notes(&asked.notes)?);
        self.ledger.note_for(&hold, asked.first, notes).await.map_err(refused)?;
        Ok(Response::new(StoreNotesResponse {}))
    }

    async fn get_facts(&self, request: Request<GetFactsRequest>) -> Answer<GetFactsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        caller.must_see("workspace", &asked.workspace).await?;
        let session = session(asked.workspace, asked.session);
        let facts: Facts = match asked.key {
            Some(key) => {
                let fact = self.ledger.fact(&session, &key).await.map_err(refused)?;
                fact.map(|value| (key, value)).into_iter().collect()
            }
            None => self.ledger.facts(&session).await.map_err(refused)?,
        };
        let facts = write(&facts)?;
        Ok(Response::new(GetFactsResponse { facts }))
    }

    async fn forget_session(&self, request: Request<ForgetSessionRequest>) -> Answer<ForgetSessionResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let session = session(hold.workspace.clone(), asked.session);
        let forgotten = self.ledger.forget_for(&hold, &session).await.map_err(refused)?;
        let facts = forgotten as u64;
        Ok(Response::new(ForgetSessionResponse { facts }))
    }

    async fn record_changes(&self, request: Request<RecordChangesRequest>) -> Answer<RecordChangesResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let changes = caller.stored(asked.changes).into_iter().map(wire::of_change).collect();
        let call = CallId::new(asked.call);
        let recorded = match asked.before {
            Some(before) => self.ledger.record_changes_after(&hold, &call, before, changes).await,
            None => self.ledger.record_changes_for(&hold, &call, changes).await,
        };
        recorded.map_err(refused)?;
        Ok(Response::new(RecordChangesResponse {}))
    }

    async fn list_changes(&self, request: Request<ListChangesRequest>) -> Answer<ListChangesResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let id = CallId::new(asked.call);
        let changes = match self.call(&id, &caller.reads(asked.workspaces).await?).await? {
            Some(_) => self.ledger.changes(&id).await.map_err(refused)?,
            None => Vec::new(),
        };
        Ok(Response::new(ListChangesResponse {
            changes: changes.into_iter().map(wire::change).collect(),
        }))
    }

    async fn begin_output(&self, request: Request<BeginOutputRequest>) -> Answer<BeginOutputResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        if !toolgate_store::output::is_name(&asked.id) {
            return Err(status::bad_field("id", "expected the name of an output"));
        }
        let owner = OutputOwner {
            call: CallId::new(asked.call),
            session: SessionId::new(asked.session),
            workspace: hold.workspace.clone(),
        };
        let (id, created) = (OutputId::new(asked.id), Timestamp(asked.created_millis));
        let begun = self.ledger.begin_output_for(&hold, &id, owner, created).await;
        begun.map_err(refused)?;
        Ok(Response::new(BeginOutputResponse {}))
    }

    async fn append_output(&self, request: Request<AppendOutputRequest>) -> Answer<AppendOutputResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        if asked.data.len() > MAX_PIECE_BYTES {
            let problem = format!("expected at most {MAX_PIECE_BYTES} bytes");
            return Err(status::bad_field("data", problem));
        }
        let id = OutputId::new(asked.id);
        let appended = self
            .ledger
            .append_output_for(&hold, &id, asked.offset, asked.data)
            .await;
        appended.map_err(refused)?;
        Ok(Response::new(AppendOutputResponse {}))
    }

    async fn presign_part(&self, request: Request<PresignPartRequest>) -> Answer<PresignPartResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let (id, part) = part(asked.id, asked.start, asked.sha256);
        let presigned = self.ledger.presign_part(&hold, &id, &part).await;
        let upload = presigned.map_err(refused)?.map(|upload| caller.puts(upload));
        Ok(Response::new(PresignPartResponse { upload }))
    }

    async fn record_part(&self, request: Request<RecordPartRequest>) -> Answer<RecordPartResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let (id, part) = part(asked.id, asked.start, asked.sha256);
        let recorded = self.ledger.record_part(&hold, &id, &part, &asked.object).await;
        recorded.map_err(refused)?;
        Ok(Response::new(RecordPartResponse {}))
    }

    async fn finish_output(&self, request: Request<FinishOutputRequest>) -> Answer<FinishOutputResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let hold = caller.hold(asked.holding).await?;
        let finished = self
            .ledger
            .finish_output_for(&hold, &OutputId::new(asked.id), asked.lines)
            .await;
        let info = write(&finished.map_err(refused)?)?;
        Ok(Response::new(FinishOutputResponse { info }))
    }

    async fn get_output(&self, request: Request<GetOutputRequest>) -> Answer<GetOutputResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let id = OutputId::new(asked.id);
        let mut info = self.output(&id, &caller.reads(asked.workspaces).await?).await?;
        if info.is_some() && asked.whole {
            info = self.ledger.stat(&id).await.map_err(refused)?;
        }
        let info = write_optional(info.as_ref())?;
        Ok(Response::new(GetOutputResponse { info }))
    }

    async fn read_output(&self, request: Request<ReadOutputRequest>) -> Answer<ReadOutputResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let id = OutputId::new(asked.id);
        if self
            .output(&id, &caller.reads(asked.workspaces).await?)
            .await?
            .is_none()
        {
            return Err(missing("output", id.as_str()));
        }
        let read = self
            .ledger
            .read(&id, asked.offset, count(asked.max, MAX_READ_BYTES))
            .await;
        let data = read.map_err(refused)?;
        Ok(Response::new(ReadOutputResponse { data }))
    }

    async fn list_outputs(&self, request: Request<ListOutputsRequest>) -> Answer<ListOutputsResponse> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let filter = OutputFilter {
            workspaces: caller.reads(asked.workspaces).await?,
            ..read("filter", &asked.filter)?
        };
        let listed = self.ledger.list_outputs(&filter, &page(asked.page)?).await;
        let listed = listed.map_err(refused)?;
        Ok(Response::new(ListOutputsResponse {
            outputs: write(&listed.items)?,
            next: listed.next.unwrap_or_default(),
        }))
    }

    type FollowStream = Pin<Box<dyn Stream<Item = Result<FollowResponse, Status>> + Send>>;

    async fn follow(&self, request: Request<FollowRequest>) -> Answer<Self::FollowStream> {
        let (caller, asked) = ledger_access::enter(request, &self.bindings)?;
        let reads = caller.reads(asked.workspaces).await?;
        let stream = self.followers.told(&reads, &self.closing);
        Ok(Response::new(Box::pin(stream)))
    }
}
