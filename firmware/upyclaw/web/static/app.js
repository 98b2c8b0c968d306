"use strict";
// The page of the board. One WebSocket carries everything (docs/web.md); no library, no build step.

const WORDS = {
  en: {
    chat: "Chat", sessions: "Sessions", memory: "Memory", profile: "Profile", status: "Status",
    token: "Token", login: "Log in", send: "Send", stop: "Stop", say: "Message", earlier: "Earlier messages",
    tokenhelp: "The board prints a link with the token on its serial line when it starts; “upyclaw chat” shows it as a QR code (/web).",
    empty: "Nothing said yet. What you write here stays on the board.",
    newname: "Name (optional)", new: "New session", search: "Search the memory", find: "Search",
    shared: "What the board remembers for good. All who own the board share it; guests do not see it.",
    language: "Language", theme: "Colours", auto: "as the system", light: "light", dark: "dark", logout: "Log out",
    up: "connected", down: "not connected", lost: "Connection lost; trying again. The board goes on with its answer.",
    use: "Switch to", remove: "Delete", sure: "Really delete?", current: "current", trim: "Drop the oldest turns",
    pin: "Pin", unpin: "Unpin", edit: "Edit", forget: "Forget", why: "Why?", save: "Save", cancel: "Cancel", reset: "Reset",
    tags: "Labels", nothing: "Nothing found.", used: "recalled", pinned: "pinned",
    big: "[a message of {} bytes, too long to show]", damaged: "[this record cannot be read]",
    board: "Board", firmware: "Firmware", model: "Model", nomodel: "no model", heap: "Free heap", flash: "Free flash",
    records: "Records", size: "Session size", pages: "Open pages", serial: "Serial line", on: "in use", off: "free", memories: "Memories", full: "full",
  },
  zh: {
    chat: "聊天", sessions: "会话", memory: "记忆", profile: "档案", status: "状态",
    token: "令牌", login: "登录", send: "发送", stop: "停止", say: "消息", earlier: "更早的消息",
    tokenhelp: "开发板启动时会在串口打印带令牌的链接；在 “upyclaw chat” 中输入 /web 可显示二维码。",
    empty: "还没有对话。你在这里写的内容都保存在开发板上。",
    newname: "名称（可选）", new: "新会话", search: "搜索记忆", find: "搜索",
    shared: "开发板长期记住的内容。所有持有者共享，访客看不到。",
    language: "语言", theme: "颜色", auto: "跟随系统", light: "浅色", dark: "深色", logout: "退出登录",
    up: "已连接", down: "未连接", lost: "连接已断开，正在重试。开发板会继续回答。",
    use: "切换到此会话", remove: "删除", sure: "确定删除？", current: "当前", trim: "删除最早的对话",
    pin: "置顶", unpin: "取消置顶", edit: "修改", forget: "忘记", why: "原因", save: "保存", cancel: "取消", reset: "恢复默认",
    tags: "标签", nothing: "没有找到。", used: "被想起", pinned: "已置顶",
    big: "[消息有 {} 字节，太长无法显示]", damaged: "[此记录无法读取]",
    board: "开发板", firmware: "固件", model: "模型", nomodel: "没有模型", heap: "空闲内存", flash: "空闲闪存",
    records: "记录数", size: "会话大小", pages: "打开的页面", serial: "串口", on: "使用中", off: "空闲", memories: "记忆条数", full: "已满",
  },
};
const $ = (id) => document.getElementById(id);
const store = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem("upyclaw." + key) || "";
    if (value === null) localStorage.removeItem("upyclaw." + key);
    else localStorage.setItem("upyclaw." + key, value);
  } catch { /* private window: nothing is kept */ }
  return "";
};
const make = (tag, cls, text) => {
  const el = document.createElement(tag);
  if (cls) el.className = cls;
  if (text !== undefined) el.textContent = text;
  return el;
};
const button = (word, act, cls) => {
  const el = make("button", cls, t(word));
  el.type = "button";
  el.onclick = act;
  return el;
};

// ---- language and colours

let token = decodeURIComponent(location.hash.slice(1)) || store("token");
let lang = store("lang") || (navigator.language.startsWith("zh") ? "zh" : "en");
const t = (word) => WORDS[lang][word] || word;
function dress() {
  document.documentElement.lang = lang;
  document.documentElement.dataset.theme = store("theme");
  for (const el of document.querySelectorAll("[data-t]")) el.textContent = t(el.dataset.t);
  for (const el of document.querySelectorAll("[data-p]")) {
    el.placeholder = t(el.dataset.p);
    el.setAttribute("aria-label", t(el.dataset.p));
  }
  $("lang").value = lang;
  $("theme").value = store("theme");
  const there = $("dot").classList.contains("up");
  $("dot").title = $("dot").ariaLabel = t(there ? "up" : "down");
  $("dot").textContent = there || !token ? "" : t("down");
}
$("lang").onchange = (e) => { store("lang", lang = e.target.value); dress(); show(view); };
$("theme").onchange = (e) => { store("theme", e.target.value); dress(); };

// ---- connection

if (location.hash) history.replaceState(null, "", location.pathname);
let ws = null, hello = null, number = 0, wait = 500, timer = 0, view = "chat";
let calls = new Map();
const user = () => {
  if (!store("user")) store("user", Array.from(crypto.getRandomValues(new Uint8Array(4)), (b) => b.toString(16).padStart(2, "0")).join(""));
  return store("user") || "me";
};

function connect() {
  clearTimeout(timer);
  if (!token) return enter();
  const socket = ws = new WebSocket("ws://" + location.host + "/ws");
  let refused = false;
  socket.onopen = () => socket.send(JSON.stringify({ op: "login", token, user: store("guest") ? user() : "me" }));
  socket.onmessage = (e) => {
    let message;
    // A message that the board had to give up in the middle is no JSON.
    try { message = JSON.parse(e.data); } catch { return; }
    if (message.ev === "refused") { refused = !message.again; wait = 10000; enter(message.d, message.again); }
    else if (message.ev === "hello") welcome(message);
    else if (message.ev === "changed") { if (!calls.size) reload(); else stale = true; }
    else if (message.ev === "note" && !message.id) { messages.append(bubble("note", message.d)); if (atEnd()) toEnd(); }
    else if (calls.has(message.id)) calls.get(message.id)(message);
  };
  socket.onclose = () => {
    if (ws !== socket) return;
    up(false);
    for (const take of calls.values()) take({ ev: "end", ok: false, lost: true, error: t("lost") });
    calls.clear();
    if (refused) return;
    timer = setTimeout(connect, wait);
    wait = Math.min(wait * 2, 15000);
  };
}
setInterval(() => { if (ws && ws.readyState === 1) ws.send('{"op":"ping"}'); }, 25000);
addEventListener("online", () => { if (!hello) connect(); });

function call(op, args, take) {
  return new Promise((done) => {
    const id = ++number;
    if (!ws || ws.readyState !== 1) return done({ ok: false, error: t("lost") });
    calls.set(id, (message) => {
      if (message.ev === "end") { calls.delete(id); done(message); if (stale && !calls.size) reload(); }
      else if (take) take(message);
    });
    ws.send(JSON.stringify({ id, op, ...args }));
  });
}

function up(yes) {
  if (!yes) hello = null;
  $("dot").classList.toggle("up", yes);
  $("send").disabled = !yes;
  dress();
}

function enter(problem, keep) {
  up(false);
  if (!keep) store("token", null);
  $("nav").hidden = true;
  for (const el of document.querySelectorAll("main > section")) el.hidden = el.id !== "login";
  $("refused").textContent = problem || "";
  $("token").value = keep ? token : "";
  $("token").focus();
}
$("loginform").onsubmit = (e) => {
  e.preventDefault();
  token = $("token").value.trim().split("#").pop();
  store("guest", null);
  connect();
};
$("logout").onclick = () => { token = ""; const old = ws; ws = null; if (old) old.close(); enter(); };

function welcome(message) {
  if (!message.owner && !store("guest")) {
    // Guests each have a chat of their own.
    store("guest", "1");
    const old = ws; ws = null; old.close();
    return connect();
  }
  hello = message;
  wait = 500;
  store("token", token);
  document.title = $("name").textContent = message.name;
  for (const el of document.querySelectorAll("[data-view=memory],[data-view=profile]")) el.hidden = !message.memory;
  $("nav").hidden = false;
  up(true);
  show(message.memory || (view !== "memory" && view !== "profile") ? view : "chat");
  reload();
}

// ---- views

const LOAD = { sessions, memory: () => memory(), profile, status, chat: () => {} };
function show(name) {
  view = name;
  if (!hello) return;
  for (const el of document.querySelectorAll("main > section")) el.hidden = el.id !== name;
  for (const el of document.querySelectorAll("nav button")) el.toggleAttribute("aria-current", el.dataset.view === name);
  LOAD[name]();
}
$("nav").onclick = (e) => { if (e.target.dataset.view) show(e.target.dataset.view); };
const problem = (section, text) => { $(section).querySelector(".error").textContent = text || ""; };
function sessionName(name) { if (name) $("session").textContent = name; }

// ---- chat

let first = 0, shown = 0, stale = false, running = 0;
const talk = $("talk"), messages = $("messages");
const atEnd = () => talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80;
const toEnd = () => { talk.scrollTop = talk.scrollHeight; };

// Code blocks, `code` and **bold**; everything else is text.
function render(el, text) {
  el.textContent = "";
  text.split(/```(?:[\w+-]*\n)?/).forEach((part, i) => {
    if (i % 2) { el.append(make("pre", "", part.replace(/\n$/, ""))); return; }
    for (const bit of part.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/)) {
      if (bit.length > 2 && bit[0] === "`" && bit.endsWith("`")) el.append(make("code", "", bit.slice(1, -1)));
      else if (bit.length > 4 && bit.startsWith("**") && bit.endsWith("**")) el.append(make("b", "", bit.slice(2, -2)));
      else el.append(bit);
    }
  });
}
function bubble(role, text) {
  const el = make("div", "m " + role);
  if (role === "assistant") render(el, text); else el.textContent = text;
  return el;
}

async function reload() {
  stale = false;
  const items = [];
  const end = await call("page", { before: 0, limit: Math.min(Math.max(shown, 20), 50) }, (m) => items.unshift(m));
  if (!end.ok) { if (end.again) setTimeout(reload, 300); return; }
  if (running) { stale = true; return; }
  messages.textContent = "";
  put(items, end);
  toEnd();
}
async function earlier() {
  const items = [];
  const height = talk.scrollHeight;
  const end = await call("page", { before: first, limit: 20 }, (m) => items.unshift(m));
  if (!end.ok) return;
  put(items, end);
  talk.scrollTop += talk.scrollHeight - height;
}
function put(items, end) {
  const part = document.createDocumentFragment();
  for (const m of items) {
    const text = m.bytes ? t("big").replace("{}", m.bytes) : m.damaged ? t("damaged") : m.text;
    part.append(bubble(m.role, text));
  }
  messages.prepend(part);
  first = end.before;
  shown = messages.children.length;
  $("earlier").hidden = !end.more;
  $("empty").hidden = shown > 0;
  sessionName(end.session);
}
$("earlier").onclick = earlier;

async function say(text) {
  if (text === "/stop") return ws.send('{"op":"stop"}');
  $("empty").hidden = true;
  messages.append(bubble("user", text));
  const answer = bubble("assistant", "");
  answer.classList.add("live");
  messages.append(answer);
  toEnd();
  running++;
  $("stop").hidden = false;
  let words = "";
  const end = await call("chat", { text }, (m) => {
    const follow = atEnd();
    if (m.ev === "text") { words += m.d; render(answer, words); }
    else if (m.ev === "note") answer.before(bubble("note", m.d));
    if (follow) toEnd();
  });
  running--;
  $("stop").hidden = running > 0 ? false : true;
  answer.classList.remove("live");
  if (!words) answer.remove();
  if (end.error) { messages.append(bubble("note error", end.error)); toEnd(); }
  sessionName(end.session);
  if (stale && !running) reload();
}
$("say").onsubmit = (e) => {
  e.preventDefault();
  const text = $("line").value.trim();
  if (!text || !hello) return;
  if (new TextEncoder().encode(text).length > hello.line) {
    messages.append(bubble("note error", "> " + hello.line + " bytes"));
    return;
  }
  $("line").value = "";
  grow();
  say(text);
};
const grow = () => { $("line").style.height = "auto"; $("line").style.height = $("line").scrollHeight + "px"; };
$("line").oninput = grow;
$("line").onkeydown = (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("say").requestSubmit(); }
};
$("stop").onclick = () => ws.send('{"op":"stop"}');

// ---- sessions

const kb = (n) => (n == null ? "?" : n < 1024 ? n + " B" : n < 1048576 ? Math.round(n / 1024) + " KB" : (n / 1048576).toFixed(1) + " MB");
async function sessions() {
  const list = document.createDocumentFragment();
  const end = await call("sessions", {}, (m) => {
    const li = make("li", "", m.name + " · " + kb(m.size));
    const row = make("div", "row");
    if (m.current) row.append(make("span", "tag", t("current")), button("trim", () => change("trim", "")));
    else row.append(button("use", () => change("switch", m.name)), sure("remove", () => change("delete", m.name)));
    li.append(row);
    list.append(li);
  });
  if (end.ok) $("sessionlist").replaceChildren(list);
  problem("sessions", end.ok ? "" : end.error);
}
async function change(what, name) {
  const end = await call("session", { do: what, name });
  sessionName(end.session);
  if (end.ok && what !== "delete") { shown = 0; reload(); }
  await sessions();
  problem("sessions", end.ok ? (what === "trim" ? end.d : "") : end.error);
}
function sure(word, act) {
  const el = button(word, () => {
    if (el.dataset.asked) return act();
    el.dataset.asked = "1";
    el.textContent = t("sure");
    setTimeout(() => { delete el.dataset.asked; el.textContent = t(word); }, 4000);
  });
  return el;
}
$("newsession").onsubmit = (e) => { e.preventDefault(); change("new", $("newname").value.trim()); $("newname").value = ""; };

// ---- memory

async function memory() {
  const q = $("query").value.trim();
  const list = document.createDocumentFragment();
  const end = await call("memory", q ? { do: "search", q } : { do: "list" }, (m) => list.append(card(m)));
  if (end.again) return setTimeout(memory, 300);
  if (end.ok) $("memorylist").replaceChildren(list.children.length ? list : make("li", "dim", t("nothing")));
  problem("memory", end.ok ? "" : end.error);
}
function card(m) {
  const li = make("li", "", m.content);
  const row = make("div", "row");
  for (const tag of (m.tags || "").split(/[;,；，]/)) if (tag.trim()) row.append(make("span", "tag", tag.trim()));
  if (m.pinned) row.append(make("span", "tag", t("pinned")));
  const when = m.updated ? new Date(m.updated * 1000).toLocaleDateString(lang) : "";
  row.append(make("span", "dim", [when, t("used") + " " + m.count].filter(Boolean).join(" · ")));
  const acts = make("div", "row");
  acts.append(
    button(m.pinned ? "unpin" : "pin", () => alter({ do: "pin", memory: m.memory, on: !m.pinned })),
    button("edit", () => edit(li, m)),
    button("why", async () => {
      const end = await call("memory", { do: "why", memory: m.memory });
      let out = li.querySelector(".m");
      if (!out) li.append(out = make("div", "m note"));
      out.textContent = end.ok ? end.d : end.error;
    }),
    sure("forget", () => alter({ do: "forget", memory: m.memory })),
  );
  li.append(row, acts);
  return li;
}
function edit(li, m) {
  if (li.querySelector("form")) return;
  const form = make("form"), text = make("textarea"), tags = make("input");
  text.value = m.content;
  text.rows = 3;
  tags.value = m.tags;
  tags.placeholder = tags.ariaLabel = t("tags");
  const row = make("div", "row"), ok = make("button", "main", t("save"));
  row.append(ok, button("cancel", () => form.remove()));
  form.append(text, tags, row);
  form.onsubmit = (e) => { e.preventDefault(); alter({ do: "edit", memory: m.memory, content: text.value.trim(), tags: tags.value.trim() }); };
  li.append(form);
  text.focus();
}
async function alter(what) {
  const end = await call("memory", what);
  await memory();
  problem("memory", end.ok ? "" : end.error);
}
$("search").onsubmit = (e) => { e.preventDefault(); memory(); };

// ---- profile

async function profile() {
  const box = $("profilelist");
  box.textContent = "";
  problem("profile", "");
  for (const file of ["soul", "identity", "user"]) {
    const end = await call("profile", { do: "show", file });
    if (!end.ok) { problem("profile", end.error); return; }
    const form = make("form"), text = make("textarea");
    text.value = end.d;
    text.setAttribute("aria-label", file);
    const keep = async (args) => { const r = await call("profile", { file, ...args }); if (r.ok) await profile(); problem("profile", r.ok ? "" : r.error); };
    const row = make("div", "row");
    row.append(make("button", "main", t("save")), sure("reset", () => keep({ do: "reset" })));
    form.onsubmit = (e) => { e.preventDefault(); keep({ do: "edit", text: text.value }); };
    const li = make("li");
    li.append(make("b", "", file + ".md"), form);
    form.append(text, row);
    const ul = make("ul", "list");
    ul.append(li);
    box.append(ul);
  }
}

// ---- status

async function status() {
  const s = await call("status", {});
  problem("status", s.ok ? "" : s.error);
  if (!s.ok) return;
  const facts = [
    ["board", s.board + " · " + location.host], ["firmware", s.firmware],
    ["model", s.model ? s.model + " · " + s.context : t("nomodel") + ": " + s.why],
    ["heap", kb(s.heap_free)], ["flash", kb(s.flash_free)],
    ["sessions", s.session], ["records", s.records],
    ["size", kb(s.bytes) + " / " + kb(s.limit) + (s.blocked ? " · " + t("full") : "")],
    ["pages", s.pages], ["serial", t(s.serial ? "on" : "off")],
  ];
  if (s.memories != null) facts.push(["memories", s.memories]);
  $("facts").replaceChildren(...facts.flatMap(([k, v]) => [make("dt", "", t(k)), make("dd", "", v)]));
}

dress();
connect();
