// Creates one of the workflows in this folder:  URL=http://127.0.0.1:8080 KEY=… node examples/deploy.mjs hello-request
const { URL: url = 'http://127.0.0.1:8080', KEY: key } = process.env;
const name = process.argv[2];
if (name === undefined || key === undefined) {
  console.error(
    'usage: URL=http://127.0.0.1:8080 KEY=<your API key> node examples/deploy.mjs <name of an example>',
  );
  process.exit(2);
}

const { default: workflow } = await import(`./${name}.mjs`);
const answer = await fetch(`${url}/v1/workflows`, {
  method: 'POST',
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify(workflow),
});
const { data, error } = await answer.json();
if (error !== undefined) {
  console.error(`${answer.status}: ${error}`);
  process.exit(1);
}
console.log(`${data.id}  ${data.name}`);
for (const trigger of data.triggers) console.log(`  ${trigger.id}  ${addressOf(trigger)}`);

function addressOf({ endpoint_url, email_address, configured_props }) {
  // A source has its endpoint among its props.
  return endpoint_url ?? email_address ?? configured_props?.http?.endpoint_url ?? '';
}
