/** Status of an answer, with its error code or message where it is none of 2xx; a caller that gets no answer says so. */
export async function statusOf(request: Promise<Response>): Promise<string> {
  try {
    const response = await request;
    const text = await response.text();
    const code = response.ok ? '' : (/"(?:error|message)": *"([^"]{0,100})/.exec(text)?.[1] ?? '');
    return `${response.status} ${code}`.trim();
  } catch {
    return 'no answer';
  }
}
