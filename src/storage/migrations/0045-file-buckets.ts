/** Content of files in a bucket of object storage. Never edited once released. */
export const fileBucketsMigration = {
  name: '0045-file-buckets',
  statements: [
    `alter table files add column content_in text not null default 'store'`,
    `create table file_buckets (
      bucket text primary key, claim text not null, created_at_ms bigint not null, swept_at_ms bigint not null)`,
  ],
};
