import type { Step } from '../../step.ts';
import { contentOf, type MailAction, mailProps } from '../mail-content.ts';

/** Attachments are in what a step sends, as base64, which is bounded. */
const attachmentBytesMax = 3_000_000;

export default {
  key: 'email-send-email-to-self',
  name: 'Send an email to yourself',
  version: '0.0.1',
  description:
    'Sends an email to the user who created the workflow, when the run has ended. The operator sets the mail server. Example: subject `New order`, text `{{steps.trigger.event.body.total}}`',
  type: 'action',
  props: mailProps,
  async run(this: MailAction, { $ }: { $: Step }) {
    const { attachments, ...mail } = await contentOf(this, attachmentBytesMax);
    $.send.email({
      ...mail,
      attachments: attachments.map(({ filename, content }) => ({
        filename,
        content: content.toString('base64'),
        encoding: 'base64',
      })),
    });
    $.export('$summary', `Sends "${mail.subject}" when the run has ended`);
    return { subject: mail.subject };
  },
};
