/** Never edited once released: a change is a new migration. */
export const deliveriesMigration = {
  name: '0003-deliveries',
  statements: [
    `create table subscriptions (
      id text primary key, emitter_owner_id text not null, emitter_id text not null, event_name text not null,
      listener_id text not null, listener_owner_id text not null, user_id text not null, created_at_ms bigint not null,
      unique (emitter_owner_id, emitter_id, event_name, listener_id))`,
    `create index subscriptions_by_listener on subscriptions (listener_id)`,
    `create index subscriptions_by_listener_owner on subscriptions (listener_owner_id, created_at_ms, id)`,
    `create table auto_subscriptions (
      id text primary key, owner_id text not null, event_name text not null, listener_id text not null,
      listener_owner_id text not null, user_id text not null, created_at_ms bigint not null,
      unique (owner_id, event_name, listener_id))`,
    `create index auto_subscriptions_by_listener on auto_subscriptions (listener_id)`,
    `create table webhooks (
      id text primary key, owner_id text not null, user_id text not null, name text, description text, url text not null,
      secret text not null, old_secret text, old_secret_until_ms bigint, state text not null, disabled_reason text,
      disabled_at_ms bigint, failing_since_ms bigint, removed_records bigint not null, created_at_ms bigint not null,
      updated_at_ms bigint not null)`,
    `create index webhooks_by_owner on webhooks (owner_id, created_at_ms, id)`,
    `create table deliveries (
      id text primary key, owner_id text not null, listener_id text not null, subscription_id text, replay_id text,
      emitter_id text not null, channel text not null, ms bigint not null, seq bigint not null, emit_id text not null,
      hops integer not null, state text not null, reason text, run_at_ms bigint not null, lease_node text,
      attempts integer not null, attempt_log text not null, status integer, latency_ms integer,
      has_payload integer not null, payload_bytes bigint not null, created_at_ms bigint not null, ended_at_ms bigint)`,
    `create index deliveries_by_listener on deliveries (listener_id, created_at_ms, id)`,
    `create index deliveries_by_replay on deliveries (replay_id) where replay_id is not null`,
    `create index deliveries_waiting on deliveries (run_at_ms, id) where state = 'queued' and lease_node is null`,
    `create index deliveries_waiting_by_listener on deliveries (listener_id, run_at_ms, id)
      where state = 'queued' and lease_node is null`,
    `create index deliveries_leased on deliveries (lease_node) where lease_node is not null`,
    `create index deliveries_undelivered on deliveries (owner_id, created_at_ms, id)
      where ended_at_ms is not null and state <> 'delivered'`,
    `create index deliveries_by_payload on deliveries (emit_id) where has_payload = 1`,
    `create table delivery_payloads (
      emit_id text primary key, owner_id text not null, event text not null, fanning integer not null,
      created_at_ms bigint not null)`,
    `create table replays (
      id text primary key, owner_id text not null, emitter_owner_id text not null, user_id text not null,
      emitter_id text not null, channel text not null, listener_id text not null, subscription_id text,
      start_ms bigint, start_seq bigint, end_ms bigint, end_seq bigint, after_ms bigint not null,
      after_seq bigint not null, state text not null, reason text, total integer not null, queued integer not null,
      removed_sent integer not null, removed_failed integer not null, rate integer not null, run_at_ms bigint not null,
      created_at_ms bigint not null, updated_at_ms bigint not null)`,
    `create index replays_by_emitter on replays (emitter_id, created_at_ms, id)`,
    `create index replays_by_owner on replays (owner_id)`,
    `create index replays_by_listener on replays (listener_id)`,
    `create index replays_by_age on replays (created_at_ms)`,
  ],
};
