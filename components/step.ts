/** `$` of an action, as far as the actions of this folder use it. */
export interface Step {
  export(name: string, value: unknown): void;
  respond(response: { status?: number; headers?: object; body?: unknown }): Promise<void>;
  flow: {
    exit(reason?: string): void;
    delay(ms: number): WaitUrls;
    suspend(ms?: number): WaitUrls;
    trigger(workflowId: string, event: unknown): Promise<unknown>;
  };
  send: {
    email(mail: object): void;
  };
}

/** Requests to these URLs end a wait early, or cancel the run. */
export interface WaitUrls {
  resume_url: string;
  cancel_url: string;
}
