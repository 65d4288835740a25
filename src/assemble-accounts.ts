import { join } from 'node:path';
import { AccountService } from '#accounts/account-service.ts';
import { AppCatalogue } from '#accounts/apps/app-catalogue.ts';
import { ConnectService } from '#accounts/connect/connect-service.ts';
import { installationFolder } from '#lib/installation.ts';
import { Observers } from '#lib/observers.ts';
import type { Deliveries } from './assemble-delivery.ts';
import type { Platform } from './assemble-platform.ts';

export type Accounts = Awaited<ReturnType<typeof assembleAccounts>>;

/** Connected accounts: the catalogue of apps, credentials that are kept fresh, and how accounts are connected. */
export async function assembleAccounts(platform: Platform, { router }: Pick<Deliveries, 'router'>) {
  const { settings, clock, logger, publicUrl, egress, store, vault, node, dispatcher, bus } = platform;
  const apps = await AppCatalogue.load({
    store,
    folders: [join(installationFolder, 'apps'), ...(settings.appsFolder === '' ? [] : [settings.appsFolder])],
    logger,
  });
  const accountChanges = new Observers<[accountId: string]>();
  const accounts = new AccountService({
    ...{ store, vault, clock, logger, node, dispatcher, policy: egress.policy, bus, apps, publicUrl, router },
    checkHours: settings.accountCheckHours,
    auditDays: settings.auditDays,
    onChange: accountChanges.tell,
  });
  const connecting = new ConnectService({
    ...{ store, vault, clock, logger, dispatcher, apps, publicUrl },
    onChange: accountChanges.tell,
  });

  return { apps, accounts, accountChanges, connecting };
}
