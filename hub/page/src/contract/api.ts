//! Sends requests to the hub. Every request goes to the origin of the web page.

const ROOT = "/api/v1/";

export type Params = Record<string, string | number | null | undefined | string[]>;

/** An error status of the hub, or a request without an answer. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 if the hub did not answer. */
    readonly status: number,
  ) {
    super(message);
  }
}

/** Returns the URL of a request. Parameters without a value are left out. */
export function address(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (Array.isArray(value)) {
      for (const item of value) query.append(name, item);
    } else if (value !== null && value !== undefined) {
      query.append(name, String(value));
    }
  }
  const text = query.toString();
  return ROOT + path + (text === "" ? "" : `?${text}`);
}

/** Requests a JSON document. */
export async function getJson<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
  const response = await request(path, params, signal);
  return (await response.json()) as T;
}

/** Requests a binary message. */
export async function getBinary(
  path: string,
  params?: Params,
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  return (await request(path, params, signal)).arrayBuffer();
}

/** Posts a JSON document with the token of a user, or without one if the hub knows the user. */
export async function postJson<T>(path: string, token: string, body: unknown): Promise<T> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (token !== "") headers["ibnet-token"] = token;
  const post = { method: "POST", headers, body: JSON.stringify(body) };
  return (await (await request(path, {}, undefined, post)).json()) as T;
}

async function request(
  path: string,
  params?: Params,
  signal?: AbortSignal,
  post: RequestInit = {},
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address(path, params), { signal, cache: "no-store", ...post });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("the hub does not answer", 0);
  }
  if (!response.ok) throw new ApiError(await reason(response), response.status);
  return response;
}

async function reason(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: unknown };
    if (typeof body.error === "string") return body.error;
  } catch {
    // The body is not JSON, so only the status is known.
  }
  return `status ${response.status}`;
}

/** Converts milliseconds to nanoseconds for a request, without rounding the last digits. */
export function nanoseconds(milliseconds: number): string {
  return `${BigInt(Math.round(milliseconds * 1000))}000`;
}
