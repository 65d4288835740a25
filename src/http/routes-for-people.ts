/**
 * Operations that take the API key of a user only (platform facts, 1.2): access tokens of OAuth clients are refused by
 * them. They are about a person, or bring code into the service. Without a method: all of them.
 */
const forPeople: readonly { method?: string; route: RegExp }[] = [
  { route: /^\/v1\/users(\/|$)/ },
  { route: /^\/v1\/components(\/|$)/ },
  { method: 'POST', route: /^\/v1\/sources\/?$/ },
  { method: 'POST', route: /^\/v1\/workflows\/?$/ },
  { method: 'PUT', route: /^\/v1\/workflows\/:id$/ },
  // Additions that do the same: a new version of a workflow, and workspaces, which have to be somebody's.
  { method: 'POST', route: /^\/v1\/workflows\/:id\/deployments$/ },
  { route: /^\/v1\/workspaces\/?$/ },
];

/** @param route the pattern of the route, such as /v1/workflows/:id */
export function isForPeople(method: string, route: string): boolean {
  return forPeople.some((one) => (one.method ?? method) === method && one.route.test(route));
}
