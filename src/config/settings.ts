/**
 * Table of contents 4: every setting. `read-settings.ts` reads them from environment variables.
 * docs/reference/settings.md is generated from this table, and a test keeps the two equal.
 */
export const settingDefinitions = {
  port: {
    env: 'MILLRACE_PORT',
    type: 'integer',
    default: 8080,
    min: 0,
    max: 65535,
    text: 'TCP port of the API, endpoints and streams; 0 takes a free one.',
  },
  host: {
    env: 'MILLRACE_HOST',
    type: 'string',
    default: '127.0.0.1',
    shown: 'whole',
    text: 'Address to listen on. Use 0.0.0.0 behind a proxy that adds TLS.',
  },
  publicUrl: {
    env: 'MILLRACE_PUBLIC_URL',
    type: 'string',
    default: '',
    shown: 'place',
    text: 'Address under which others reach the service, used in endpoint URLs; empty means http://<host>:<port>.',
  },
  trustedProxies: {
    env: 'MILLRACE_TRUSTED_PROXIES',
    type: 'list',
    default: '',
    shown: 'whole',
    text: 'Addresses or CIDRs of proxies in front of the service, whose X-Forwarded-For, -Host and -Proto headers are trusted: client_ip is then the address of the caller. Empty trusts no proxy; all addresses (0.0.0.0/0) cannot be trusted.',
  },
  data: {
    env: 'MILLRACE_DATA',
    type: 'string',
    default: './.millrace',
    shown: 'whole',
    text: 'Folder of everything durable: database, caches, first API key.',
  },
  databaseUrl: {
    env: 'MILLRACE_DATABASE_URL',
    type: 'string',
    default: '',
    shown: 'place',
    text: 'postgres://… to keep everything in PostgreSQL 15 or newer; empty means SQLite in the data folder. Several hosts, as postgres://user:password@host1:5432,host2:5432/database: the one that takes writes.',
  },
  roles: {
    env: 'MILLRACE_ROLES',
    type: 'list',
    default: 'api,ingress,scheduler,worker',
    shown: 'whole',
    text: 'What this process does: any of api, ingress (HTTP endpoints), scheduler (timers), worker (runs). Health and metrics are answered with any.',
  },
  nodeLeaseSeconds: {
    env: 'MILLRACE_NODE_LEASE',
    type: 'integer',
    default: 15,
    min: 2,
    max: 300,
    text: 'Seconds after which the other nodes on the same database take over the work of a node that has stopped answering. A node renews its lease three times as often; one that is paused for longer finds its work taken over.',
  },
  apiKey: {
    env: 'MILLRACE_API_KEY',
    type: 'string',
    default: '',
    shown: 'never',
    text: 'API key of the first user, on first start: 20 to 1,024 printable ASCII characters without spaces; empty means a new one is made and printed once.',
  },
  sessionHours: {
    env: 'MILLRACE_SESSION_HOURS',
    type: 'integer',
    default: 168,
    min: 1,
    max: 8760,
    text: 'How long a user stays signed in to the dashboard, in hours.',
  },
  encryptionKey: {
    env: 'MILLRACE_ENCRYPTION_KEY',
    type: 'string',
    default: '',
    shown: 'never',
    text: 'Master key that seals credentials: 32 bytes as base64 or hex; empty means a key file of mode 0600 beside the data folder.',
  },
  newEncryptionKey: {
    env: 'MILLRACE_NEW_ENCRYPTION_KEY',
    type: 'string',
    default: '',
    shown: 'never',
    text: 'Only for `npm run millrace -- keys rotate-master`: the master key that takes the place of the present one.',
  },
  backupPassphrase: {
    env: 'MILLRACE_BACKUP_PASSPHRASE',
    type: 'string',
    default: '',
    shown: 'never',
    text: 'Only for `millrace backup` and `millrace restore`: what backups are encrypted with, where no file says it.',
  },
  endpointDomain: {
    env: 'MILLRACE_ENDPOINT_DOMAIN',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'Domain whose sub-domains are HTTP endpoints, such as example.com for https://<key>.example.com/.',
  },
  egress: {
    env: 'MILLRACE_EGRESS',
    type: 'list',
    default: 'public',
    shown: 'whole',
    text: 'Where user code and deliveries may connect: public (global unicast), local (loopback and private ranges too), or CIDRs.',
  },
  appsFolder: {
    env: 'MILLRACE_APPS',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'Folder of more apps for the catalogue, one <slug>.json each; one with the slug of an app that comes with the service takes its place. Empty means none.',
  },
  connectTo: {
    env: 'MILLRACE_CONNECT_TO',
    type: 'list',
    default: '',
    shown: 'whole',
    text: "Connections of user code and of the service that are led elsewhere, to a mirror or gateway: HOST1:PORT1:HOST2:PORT2 as in curl's --connect-to. TLS still expects the certificate of HOST1, and MILLRACE_EGRESS must allow HOST2. IPv6 addresses stand in brackets; an empty HOST1 or PORT1 means any, an empty HOST2 or PORT2 the same.",
  },
  extraCa: {
    env: 'MILLRACE_EXTRA_CA',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'PEM file of certificate authorities that are trusted in addition to the bundled ones, by user code, the service and installs of npm packages.',
  },
  sandbox: {
    env: 'MILLRACE_SANDBOX',
    type: 'choice',
    choices: ['auto', 'require', 'seat-belt', 'off'],
    default: 'auto',
    text: 'Isolation of user code. auto: the kernel level (bubblewrap) where it passes its self-test, otherwise the seat belt; require: refuse to start without the kernel level; seat-belt: the seat belt alone, knowing what it does not stop; off: development only.',
  },
  nativeAddons: {
    env: 'MILLRACE_NATIVE_ADDONS',
    type: 'choice',
    choices: ['auto', 'refuse', 'allow'],
    default: 'auto',
    text: 'Whether components may load native addons of their npm packages, which run outside the permission model of Node. auto: at the kernel level of the sandbox, whose walls hold them; refuse: nowhere; allow: at every level, only where all users who deploy code are trusted with the rights of the system user of the sandbox.',
  },
  npmRegistry: {
    env: 'MILLRACE_NPM_REGISTRY',
    type: 'string',
    default: '',
    shown: 'place',
    text: 'Registry that components are installed from; empty means the one npm is configured with.',
  },
  runDeadlineSeconds: {
    env: 'MILLRACE_RUN_DEADLINE',
    type: 'integer',
    default: 300,
    min: 1,
    max: 3600,
    text: 'Longest one run or hook of a source may take, in seconds.',
  },
  runMemoryMb: {
    env: 'MILLRACE_RUN_MEMORY',
    type: 'integer',
    default: 256,
    min: 64,
    max: 10240,
    text: 'Memory of one source process, in MB.',
  },
  processesMax: {
    env: 'MILLRACE_PROCESSES_MAX',
    type: 'integer',
    default: 128,
    min: 4,
    max: 1000,
    text: 'Processes of user code that may run at once on this node. Owners share them.',
  },
  processesMemoryMb: {
    env: 'MILLRACE_PROCESSES_MEMORY',
    type: 'integer',
    default: 0,
    min: 0,
    max: 16777216,
    text: 'Memory of all processes of user code together, in MB. 0: half of the memory of the machine, at least 2048. Owners share it.',
  },
  componentDbMaxKb: {
    env: 'MILLRACE_COMPONENT_DB_MAX',
    type: 'integer',
    default: 1024,
    min: 1,
    max: 65536,
    text: 'Largest $.service.db of one source, in KB of JSON.',
  },
  bodyMaxKb: {
    env: 'MILLRACE_BODY_MAX',
    type: 'integer',
    default: 512,
    min: 1,
    max: 65536,
    text: 'Largest body of a request to an HTTP endpoint, in KB.',
  },
  smtpPort: {
    env: 'MILLRACE_SMTP_PORT',
    type: 'integer',
    default: 0,
    min: 0,
    max: 65535,
    text: 'TCP port on which mail for email triggers is taken; 0 means that no mail is taken.',
  },
  smtpHost: {
    env: 'MILLRACE_SMTP_HOST',
    type: 'string',
    default: '127.0.0.1',
    shown: 'whole',
    text: 'Address on which that mail is taken.',
  },
  emailDomain: {
    env: 'MILLRACE_EMAIL_DOMAIN',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'Domain of the addresses of email triggers, whose MX record leads here; empty means the host of the public URL.',
  },
  smtpTlsKey: {
    env: 'MILLRACE_SMTP_TLS_KEY',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'PEM file of the private key with which senders of mail may go over to TLS (STARTTLS); empty means they cannot.',
  },
  smtpTlsCert: {
    env: 'MILLRACE_SMTP_TLS_CERT',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'PEM file of the certificate that belongs to that key, with those between it and its authority.',
  },
  runsKept: {
    env: 'MILLRACE_RUNS_KEPT',
    type: 'integer',
    default: 1000,
    min: 1,
    max: 1_000_000,
    text: 'Ended runs kept of each workflow, the newest, with the input, exports and logs of their steps. Older ones are removed a few seconds after they are superseded; with thousands of busy workflows or a very large number it may take a minute.',
  },
  connectionsPerAddress: {
    env: 'MILLRACE_CONNECTIONS_PER_ADDRESS',
    type: 'integer',
    default: 4000,
    min: 10,
    max: 1_000_000,
    text: 'Connections open at once from one address (of IPv6, one network of 64 bits), on each node; those of MILLRACE_TRUSTED_PROXIES are not counted. No address has more than half of the open files that the system allows the process. More are closed unread, with a line in the log.',
  },
  streamsPerKey: {
    env: 'MILLRACE_STREAMS_PER_KEY',
    type: 'integer',
    default: 100,
    min: 1,
    max: 100_000,
    text: 'Live streams (server-sent events) open at once with one API key or access token, on each node; a user or OAuth client has four times as many with all of theirs. More are answered with 429.',
  },
  auditDays: {
    env: 'MILLRACE_AUDIT_DAYS',
    type: 'integer',
    default: 365,
    min: 1,
    max: 36_500,
    text: 'How long it is kept who did what with connected accounts, and what used them, in days.',
  },
  quotaCredits: {
    env: 'MILLRACE_QUOTA_CREDITS',
    type: 'integer',
    default: 1_000_000,
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    text: 'Credits each user and each workspace may use on one UTC day, where no other number is set for them.',
  },
  quotaComputeMs: {
    env: 'MILLRACE_QUOTA_COMPUTE_MS',
    type: 'integer',
    default: 3_600_000_000,
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    text: 'Run time each of them may use on one UTC day, in milliseconds.',
  },
  quotaInvocations: {
    env: 'MILLRACE_QUOTA_INVOCATIONS',
    type: 'integer',
    default: 10_000_000,
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    text: 'Invocations each of them may use on one UTC day.',
  },
  quotaEnforced: {
    env: 'MILLRACE_QUOTA_ENFORCED',
    type: 'choice',
    choices: ['off', 'on'],
    default: 'off',
    text: 'on: what goes beyond a quota is refused until 00:00 UTC; off: quotas are only reported, but for those for whom it was set otherwise.',
  },
  dataStoresMaxMb: {
    env: 'MILLRACE_DATA_STORES_MAX',
    type: 'integer',
    default: 100,
    min: 1,
    max: 1_048_576,
    text: 'Keys and values in all data stores of one user or workspace, in MB.',
  },
  smtpUrl: {
    env: 'MILLRACE_SMTP_URL',
    type: 'string',
    default: '',
    shown: 'place',
    text: 'Mail server that $.send.email sends through: smtp://user:password@host:port, or smtps://… for TLS from the start; empty means no mail is sent.',
  },
  emailFrom: {
    env: 'MILLRACE_EMAIL_FROM',
    type: 'string',
    default: '',
    shown: 'whole',
    text: 'Sender of those mails, such as millrace@example.com.',
  },
  s3Endpoint: {
    env: 'MILLRACE_S3_ENDPOINT',
    type: 'string',
    default: '',
    shown: 'place',
    text: 'Object storage that $.send.s3 writes to, by path (<endpoint>/<bucket>/<key>); empty means that of AWS in the region.',
  },
  s3Region: {
    env: 'MILLRACE_S3_REGION',
    type: 'string',
    default: 'us-east-1',
    shown: 'whole',
    text: 'Region of that object storage.',
  },
  s3AccessKey: {
    env: 'MILLRACE_S3_ACCESS_KEY',
    type: 'string',
    default: '',
    shown: 'never',
    text: 'Access key of that object storage. Workflows write to every bucket it may write to; empty means none is written to.',
  },
  s3SecretKey: {
    env: 'MILLRACE_S3_SECRET_KEY',
    type: 'string',
    default: '',
    shown: 'never',
    text: 'Secret key that belongs to the access key.',
  },
  uploadMaxMb: {
    env: 'MILLRACE_UPLOAD_MAX',
    type: 'integer',
    default: 1024,
    min: 1,
    max: 1_048_576,
    text: 'Largest body that an endpoint sets aside as a file (x-pd-upload-body), in MB.',
  },
  filesMaxGb: {
    env: 'MILLRACE_FILES_MAX_GB',
    type: 'integer',
    default: 10,
    min: 1,
    max: 1_048_576,
    text: 'What the stored files of one owner may take, in GB.',
  },
  accountCheckHours: {
    env: 'MILLRACE_ACCOUNT_CHECK_HOURS',
    type: 'integer',
    default: 24,
    min: 0,
    max: 8760,
    text: 'Hours between tests of a connected account that works; 0: accounts are tested on request only.',
  },
  logLevel: {
    env: 'MILLRACE_LOG_LEVEL',
    type: 'choice',
    choices: ['debug', 'info', 'warn', 'error', 'silent'],
    default: 'info',
    text: 'The least important lines of the log that are written to standard output. At debug there is one for each request.',
  },
  logFormat: {
    env: 'MILLRACE_LOG_FORMAT',
    type: 'choice',
    choices: ['auto', 'text', 'json'],
    default: 'auto',
    text: 'Form of the log: text for people, or a line of JSON for each thing that happened; auto is text on a terminal and JSON everywhere else.',
  },
} as const satisfies Record<string, SettingDefinition>;

/**
 * What the admin of a running service sees of a text: all of it; of a URL no more than where it leads, for it may hold a
 * password; or only whether it is set.
 */
type ShownAs = 'whole' | 'place' | 'never';

export type SettingDefinition = { env: string; text: string } & (
  | { type: 'integer'; default: number; min: number; max: number }
  | { type: 'string'; default: string; shown: ShownAs }
  | { type: 'list'; default: string; shown: ShownAs }
  | { type: 'choice'; default: string; choices: readonly string[] }
);

type ValueOf<D> = D extends { type: 'integer' }
  ? number
  : D extends { type: 'list' }
    ? readonly string[]
    : D extends { type: 'choice'; choices: readonly (infer C)[] }
      ? C
      : string;

export type Settings = {
  readonly [K in keyof typeof settingDefinitions]: ValueOf<(typeof settingDefinitions)[K]>;
};
