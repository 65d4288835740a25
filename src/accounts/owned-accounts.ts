import { ownedRows } from '#storage/owned-rows.ts';

/** What is of accounts. A connect link goes with its maker, too. */
export const ownedAccounts = {
  connect_flows: ownedRows('connect_flows', { key: ['id'], owners: ['owner_id', 'user_id'] }),
  deployment_accounts: ownedRows('deployment_accounts', { key: ['deployment_id', 'account_id'] }),
  source_accounts: ownedRows('source_accounts', { key: ['source_id', 'account_id'] }),
  account_uses: ownedRows('account_uses', { key: ['account_id', 'used_by', 'day'] }),
  account_audit: ownedRows('account_audit', { key: ['id'], isIndexed: true }),
  accounts: ownedRows('accounts', { key: ['id'], isIndexed: true }),
  oauth_clients: ownedRows('oauth_clients', { key: ['id'], isIndexed: true }),
  apps: ownedRows('apps', { key: ['owner_id', 'slug'], isIndexed: true }),
} as const;
