import type { Millrace } from '../../test/support/millrace.ts';

interface SubjectOptions {
  flowControl: object | null;
  /** The account that it uses. */
  account: string;
  /** How many events a source handles at once; undefined for a workflow. */
  concurrency: number | undefined;
}

/** What bursts of events are sent to. */
interface FlowSubjects {
  create(service: Millrace, options: SubjectOptions): Promise<{ id: string; url: string }>;
  /** Where its expressions find the event, and how a rate limit names the account. */
  eventAt: string;
  accountAt: string;
  /** True: an event that did not run is kept as a run. Of a source the last hundred reasons are kept. */
  recordsUnbegun: boolean;
  /** `concurrency` of a source. */
  placesMax: number | undefined;
}

const workflows: FlowSubjects = {
  eventAt: 'steps.trigger.event',
  accountAt: 'a.gitlab',
  recordsUnbegun: true,
  placesMax: undefined,
  create: async (service, { flowControl, account }) => {
    const { id, triggers } = await service.createWorkflow({
      steps: [
        {
          namespace: 'a',
          code: `export default { props: { gitlab: { type: 'app', app: 'gitlab' } }, async run() { return 1; } }`,
          props: { gitlab: { authProvisionId: account } },
        },
      ],
      triggers: [{ type: 'http' }],
      settings: { flow_control: flowControl },
    });
    return { id, url: triggers[0].endpoint_url };
  },
};

/** Emits what it got, as a run of a workflow has it. */
const emits = `export default {
  props: { http: '$.interface.http', gitlab: { type: 'app', app: 'gitlab' } },
  async run({ body, events }) {
    this.$emit(events === undefined ? { body } : { events: events.map(({ body }) => ({ body })) });
  },
}`;

const sources: FlowSubjects = {
  eventAt: 'event',
  accountAt: 'gitlab',
  recordsUnbegun: false,
  placesMax: 20,
  create: async (service, { flowControl, account, concurrency }) => {
    const { id, configured_props } = await service.createSource({
      component_code: emits,
      configured_props: { gitlab: { authProvisionId: account } },
      flow_control: flowControl,
      concurrency,
    });
    return { id, url: configured_props.http.endpoint_url };
  },
};

export function subjectsOf(kind: string): FlowSubjects {
  if (kind === 'workflows') return workflows;
  if (kind === 'sources') return sources;
  throw new Error(`--of ${kind}: expected workflows or sources`);
}
