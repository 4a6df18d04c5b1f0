// The token of the printed address, and requests that carry it.

// The token stays in the page's memory. Cookies and addresses would reach other servers of this
// host.
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
history.replaceState(null, "", location.pathname);
// The user opens the printed address in the tab of this page.
addEventListener("hashchange", () => location.reload());

export function request(path, options = {}) {
  return fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
}
