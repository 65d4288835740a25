import { ConfigurationError, shown } from '../../configuration-error.ts';
import { contentOf, type MailAction, mailProps } from '../../email/mail-content.ts';
import type { Step } from '../../step.ts';
import { createMailServer, type ServerFields } from '../mail-server.ts';
import smtp from '../smtp.app.ts';

const attachmentBytesMax = 25_000_000;

/** `this` of the action. */
interface SmtpAction extends MailAction, ServerFields {
  smtp?: { $auth?: ServerFields };
  from: string;
  to: unknown;
  cc?: unknown;
  bcc?: unknown;
  replyTo?: string;
}

/** Addresses of a list, or of text with commas between them. */
function addressesOf(name: string, given: unknown): string[] {
  const list = typeof given === 'string' ? given.split(',') : (given ?? []);
  if (!Array.isArray(list))
    throw new ConfigurationError(`${name}: found ${shown(given)}, expected an array of email addresses`);
  const addresses = list.map((address) => String(address).trim()).filter((address) => address !== '');
  const wrong = addresses.find((address) => !/^[^\r\n]*[^\s@<]@[^\s@>]+>?$/.test(address));
  if (wrong === undefined) return addresses;
  throw new ConfigurationError(`${name}: found ${shown(wrong)}, expected an email address`);
}

export default {
  key: 'smtp-send-email',
  name: 'Send an email by SMTP',
  version: '0.0.1',
  description:
    'Sends an email through your mail server, with an account of SMTP or with host, user and password. Example: from `Shop <shop@example.com>` to `["ada@example.com"]` by `smtp.example.com`',
  type: 'action',
  props: {
    smtp: {
      type: 'app',
      app: smtp.app,
      label: 'Account',
      description: 'An account of SMTP, as `{"authProvisionId": "apn_…"}`. Without it `host` is needed',
      optional: true,
    },
    from: {
      type: 'string',
      label: 'From',
      description: 'The address of the sender, such as `Shop <shop@example.com>`',
    },
    to: {
      type: 'string[]',
      label: 'To',
      description: 'The addresses of the recipients, such as `["ada@example.com"]`',
    },
    cc: {
      type: 'string[]',
      label: 'Cc',
      description: 'Addresses that get a copy',
      optional: true,
    },
    bcc: {
      type: 'string[]',
      label: 'Bcc',
      description: 'Addresses that get a copy without being shown to others',
      optional: true,
    },
    replyTo: {
      type: 'string',
      label: 'Reply to',
      description: 'Where replies go, if not to the sender',
      optional: true,
    },
    ...mailProps,
    host: {
      type: 'string',
      label: 'Host',
      description: 'The mail server, such as `smtp.example.com`. Not needed with an account',
      optional: true,
    },
    port: {
      type: 'integer',
      label: 'Port',
      description: 'The port of the mail server. Without a value 465 for `tls`, else 587',
      min: 1,
      max: 65_535,
      optional: true,
    },
    security: {
      type: 'string',
      label: 'Security',
      description:
        '`tls` is encrypted from the start, `starttls` before the password is sent, and `none` never. Without a value `tls` for port 465, else `starttls`',
      options: ['tls', 'starttls', 'none'],
      optional: true,
    },
    username: {
      type: 'string',
      label: 'User',
      description: 'The user of the mail server, if it needs one',
      optional: true,
    },
    password: {
      type: 'string',
      label: 'Password',
      description: 'The password of the user. It is kept encrypted',
      secret: true,
      optional: true,
    },
  },
  async run(this: SmtpAction, { $ }: { $: Step }) {
    const to = addressesOf('to', this.to);
    const [cc, bcc] = [addressesOf('cc', this.cc), addressesOf('bcc', this.bcc)];
    if (to.length + cc.length + bcc.length === 0)
      throw new ConfigurationError(`to: found ${shown(this.to)}, expected at least one email address`);
    const [from] = addressesOf('from', [this.from]);
    if (from === undefined) throw new ConfigurationError('from: found nothing, expected an email address');
    const content = await contentOf(this, attachmentBytesMax);
    const server = createMailServer(this, this.smtp?.$auth);
    try {
      const replyTo = this.replyTo ? { replyTo: this.replyTo } : {};
      const sent = await server.sendMail({ from, to, cc, bcc, ...replyTo, ...content });
      const { accepted, rejected, messageId, response } = sent as {
        accepted: string[];
        rejected: string[];
        messageId: string;
        response: string;
      };
      $.export('$summary', `Sent "${content.subject}" to ${accepted.join(', ')}`);
      return { message_id: messageId, accepted, rejected, response };
    } finally {
      server.close();
    }
  },
};
