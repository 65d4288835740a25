import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { ServiceAddress } from '#config/service-address.ts';
import { beginClose } from './close-server.ts';
import type { ServiceDoor } from './service-door.ts';

/**
 * The server from its first request to its last. It stops in two parts: first it accepts nothing new, and when runs have ended or were given
 * back, those who wait for them are answered.
 */
export class ListeningServer {
  readonly #server: FastifyInstance;
  readonly #address: ServiceAddress;
  readonly #door: ServiceDoor;
  #answered = async (): Promise<void> => {};

  constructor(options: { server: FastifyInstance; address: ServiceAddress; door: ServiceDoor }) {
    this.#server = options.server;
    this.#address = options.address;
    this.#door = options.door;
  }

  async listen(): Promise<void> {
    const { address, port } = this.#address.listening;
    await this.#server.listen({ host: address, port });
    this.#door.leadTo((request: IncomingMessage, response: ServerResponse) =>
      this.#server.routing(request, response),
    );
    const bound = this.#server.server.address();
    if (bound !== null && typeof bound === 'object') this.#address.bound(bound.port);
  }

  /** Refuses what is new; who is not answered `graceMs` from now is cut off. */
  stopListening(graceMs: number): void {
    this.#answered = beginClose(this.#server, graceMs);
  }

  /** After `stopListening`: resolves when those who were under way are answered. */
  answered(): Promise<void> {
    return this.#answered();
  }
}
