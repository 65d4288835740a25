import { readFile } from 'node:fs/promises';
import type { Settings } from '#config/settings.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import type { Logger } from '#lib/logger.ts';
import { MailAcceptor } from './mail-acceptor.ts';
import { MailParser } from './mail-parser.ts';

/**
 * The mail server as the settings want it, listening. `close` gives mails that are under way a few seconds, and answers
 * those who still wait that they should try again.
 */
export async function startMailServer(options: {
  settings: Pick<Settings, 'smtpHost' | 'smtpPort' | 'smtpTlsKey' | 'smtpTlsCert'>;
  acceptorOptions: Omit<ConstructorParameters<typeof MailAcceptor>[0], 'parser'>;
  logger: Logger;
  owners: ActiveOwners;
  /** Called for each wait of a mail for the part of its owner. */
  onDelayed: (ownerId: string) => void;
}): Promise<{ close(): Promise<void> }> {
  const { settings, acceptorOptions, logger, owners, onDelayed } = options;
  const tls =
    settings.smtpTlsKey === ''
      ? undefined
      : {
          key: await readFile(settings.smtpTlsKey, 'utf8'),
          cert: await readFile(settings.smtpTlsCert, 'utf8'),
        };
  const parser = new MailParser();
  // Most instances receive no mail, and would keep the library in memory.
  const { MailServer } = await import('./smtp-server.ts');
  const server = new MailServer({
    acceptor: new MailAcceptor({ ...acceptorOptions, parser }),
    ...{ logger, owners, onDelayed },
    name: acceptorOptions.domain,
    ...(tls === undefined ? {} : { tls }),
  });
  const port = await server.listen(settings.smtpHost, settings.smtpPort);
  logger.info({ host: settings.smtpHost, port, domain: acceptorOptions.domain() }, 'mail.started');
  return {
    async close() {
      await server.close();
      await parser.close();
      // A parsed mail may be stored or not: its sender no longer waits for an answer, so both are right.
      await server.settled();
    },
  };
}
