/** Never edited once released: a change is a new migration. */
export const writeProbesMigration = {
  name: '0013-write-probes',
  statements: [
    `create table write_probes (id text not null primary key, at_ms bigint not null, fill text not null)`,
  ],
};
