// Every mail to the workflow's own address becomes an event. Start the service with MILLRACE_SMTP_PORT=2525 and send one:
// curl smtp://127.0.0.1:2525 --mail-from me@example.com --mail-rcpt '<email_address>' -T mail.txt
export default {
  settings: { name: 'Mail to event', auto_deploy: true },
  triggers: [{ type: 'email', props: {} }],
  steps: [
    {
      namespace: 'emit',
      code: `export default defineComponent({
        async run({ steps, $ }) {
          const { subject, body, attachments } = steps.trigger.event;
          $.send.emit({
            subject,
            text: body.text,
            // Links to the attachments, good for half an hour.
            files: attachments.map(({ filename, contentUrl }) => ({ filename, contentUrl })),
          });
        },
      })`,
    },
  ],
};
