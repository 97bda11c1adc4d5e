// Starts `pointsman p4 lsp` and connects it with the editor. There is no build step and no dependency: the messages of the
// language server protocol are read and written here, and each feature is registered with the editor by hand.
"use strict";

const { spawn } = require("child_process");
const path = require("path");
const vscode = require("vscode");

const SELECTOR = { language: "p4" };

/** A language server: requests with promises, notifications both ways. */
class Server {
  constructor(command, onNotification, onEnd) {
    this.next = 1;
    this.waiting = new Map();
    this.onNotification = onNotification;
    this.buffer = Buffer.alloc(0);
    this.child = spawn(command, ["p4", "lsp"], { stdio: ["pipe", "pipe", "pipe"] });
    this.errors = "";
    this.child.stderr.on("data", (d) => (this.errors += d));
    this.child.stdout.on("data", (d) => this.receive(d));
    this.child.stdin.on("error", () => {});
    const ended = (why) => {
      for (const { reject } of this.waiting.values()) reject(new Error(why));
      this.waiting.clear();
      if (!this.stopped) onEnd(why);
      this.stopped = true;
    };
    this.child.on("error", (e) => ended(e.message));
    this.child.on("exit", (code) => ended(this.errors.trim() || `it ended with code ${code}`));
  }

  send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.child.stdin.write(body);
  }

  request(method, params) {
    const id = this.next++;
    const result = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    if (this.stopped) return Promise.reject(new Error("the language server has ended"));
    this.send({ id, method, params });
    return result;
  }

  notify(method, params) {
    if (!this.stopped) this.send({ method, params });
  }

  receive(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (;;) {
      const end = this.buffer.indexOf("\r\n\r\n");
      const header = end < 0 ? null : /content-length: *(\d+)/i.exec(this.buffer.toString("latin1", 0, end));
      if (!header) return;
      const length = Number(header[1]);
      if (this.buffer.length < end + 4 + length) return;
      const message = JSON.parse(this.buffer.toString("utf8", end + 4, end + 4 + length));
      this.buffer = this.buffer.subarray(end + 4 + length);
      const waiting = this.waiting.get(message.id);
      if (message.method) this.onNotification(message.method, message.params);
      else if (waiting) {
        this.waiting.delete(message.id);
        if (message.error) waiting.reject(new Error(message.error.message));
        else waiting.resolve(message.result);
      }
    }
  }

  async stop() {
    if (this.stopped) return;
    const done = this.request("shutdown", null).catch(() => {});
    await done;
    this.notify("exit", null);
    this.stopped = true;
  }
}

// Positions and ranges have the same form on both sides, apart from their classes.
const position = (p) => new vscode.Position(p.line, p.character);
const range = (r) => new vscode.Range(position(r.start), position(r.end));
const location = (l) => new vscode.Location(vscode.Uri.parse(l.uri), range(l.range));
const plain = (p) => ({ line: p.line, character: p.character });
const identifier = (document) => ({ uri: document.uri.toString() });
const edit = (e) => new vscode.TextEdit(range(e.range), e.newText);

function diagnostic(d) {
  const severity = d.severity === 1 ? vscode.DiagnosticSeverity.Error : vscode.DiagnosticSeverity.Warning;
  const out = new vscode.Diagnostic(range(d.range), d.message, severity);
  out.source = d.source;
  out.code = d.codeDescription ? { value: d.code, target: vscode.Uri.parse(d.codeDescription.href) } : d.code;
  out.tags = d.tags;
  out.relatedInformation = (d.relatedInformation || []).map(
    (r) => new vscode.DiagnosticRelatedInformation(location(r.location), r.message)
  );
  return out;
}

function symbol(s) {
  // The protocol counts kinds from 1, the editor from 0.
  const out = new vscode.DocumentSymbol(s.name, s.detail, s.kind - 1, range(s.range), range(s.selectionRange));
  out.children = s.children.map(symbol);
  return out;
}

function completion(i) {
  const out = new vscode.CompletionItem(i.label, i.kind - 1);
  out.detail = i.detail;
  out.sortText = i.sortText;
  return out;
}

/** What the editor asks of the server, each in the editor's terms. */
function providers(ask) {
  const at = (document, place) => ({ textDocument: identifier(document), position: plain(place) });
  const languages = vscode.languages;
  const all = (list, map) => (list || []).map(map);
  return [
    languages.registerHoverProvider(SELECTOR, {
      provideHover: async (document, place) => {
        const hover = await ask("textDocument/hover", at(document, place));
        return hover && new vscode.Hover(new vscode.MarkdownString(hover.contents.value), range(hover.range));
      },
    }),
    languages.registerDefinitionProvider(SELECTOR, {
      provideDefinition: async (document, place) => {
        const found = await ask("textDocument/definition", at(document, place));
        return found && location(found);
      },
    }),
    languages.registerReferenceProvider(SELECTOR, {
      provideReferences: async (document, place, context) =>
        all(await ask("textDocument/references", { ...at(document, place), context }), location),
    }),
    languages.registerDocumentHighlightProvider(SELECTOR, {
      provideDocumentHighlights: async (document, place) =>
        all(
          await ask("textDocument/documentHighlight", at(document, place)),
          (h) => new vscode.DocumentHighlight(range(h.range))
        ),
    }),
    languages.registerRenameProvider(SELECTOR, {
      prepareRename: async (document, place) => {
        const found = await ask("textDocument/prepareRename", at(document, place));
        return { range: range(found.range), placeholder: found.placeholder };
      },
      provideRenameEdits: async (document, place, newName) => {
        const result = await ask("textDocument/rename", { ...at(document, place), newName });
        const out = new vscode.WorkspaceEdit();
        for (const [uri, edits] of Object.entries(result.changes)) out.set(vscode.Uri.parse(uri), edits.map(edit));
        return out;
      },
    }),
    languages.registerCompletionItemProvider(
      SELECTOR,
      {
        provideCompletionItems: async (document, place) =>
          all(await ask("textDocument/completion", at(document, place)), completion),
      },
      ".",
      "@",
      "<",
      '"'
    ),
    languages.registerDocumentSymbolProvider(SELECTOR, {
      provideDocumentSymbols: async (document) =>
        all(await ask("textDocument/documentSymbol", { textDocument: identifier(document) }), symbol),
    }),
    languages.registerDocumentFormattingEditProvider(SELECTOR, {
      provideDocumentFormattingEdits: async (document, options) =>
        all(await ask("textDocument/formatting", { textDocument: identifier(document), options }), edit),
    }),
    languages.registerCodeActionsProvider(SELECTOR, {
      provideCodeActions: async (document, place, context) => {
        const diagnostics = context.diagnostics.map((d) => ({
          range: { start: plain(d.range.start), end: plain(d.range.end) },
          code: d.code && d.code.value ? d.code.value : d.code,
          message: d.message,
        }));
        const params = { textDocument: identifier(document), range: place, context: { diagnostics } };
        return all(await ask("textDocument/codeAction", params), (action) => {
          const out = new vscode.CodeAction(action.title, vscode.CodeActionKind.QuickFix);
          out.isPreferred = true;
          out.edit = new vscode.WorkspaceEdit();
          for (const [uri, edits] of Object.entries(action.edit.changes)) out.edit.set(vscode.Uri.parse(uri), edits.map(edit));
          return out;
        });
      },
    }),
    languages.registerFoldingRangeProvider(SELECTOR, {
      provideFoldingRanges: async (document) =>
        all(await ask("textDocument/foldingRange", { textDocument: identifier(document) }), (f) => {
          const kinds = { comment: vscode.FoldingRangeKind.Comment, imports: vscode.FoldingRangeKind.Imports };
          return new vscode.FoldingRange(f.startLine, f.endLine, kinds[f.kind]);
        }),
    }),
  ];
}

let server;

async function start(collection) {
  const settings = vscode.workspace.getConfiguration("pointsman");
  const folder = vscode.workspace.workspaceFolders && vscode.workspace.workspaceFolders[0];
  const root = folder ? folder.uri.fsPath : "";
  const published = (method, params) => {
    if (method === "textDocument/publishDiagnostics") {
      collection.set(vscode.Uri.parse(params.uri), params.diagnostics.map(diagnostic));
    }
  };
  const ended = (why) => {
    const command = settings.get("path");
    vscode.window.showErrorMessage(`P4: \`${command} p4 lsp\` does not run: ${why}. Set pointsman.path.`);
  };
  const started = new Server(settings.get("path"), published, ended);
  server = started;
  await started.request("initialize", {
    processId: process.pid,
    rootUri: folder ? folder.uri.toString() : null,
    capabilities: { general: { positionEncodings: ["utf-16"] } },
    initializationOptions: {
      includeDirs: settings.get("includeDirs").map((dir) => path.resolve(root, dir)),
      defines: settings.get("defines"),
      formatWidth: settings.get("formatWidth"),
    },
  });
  started.notify("initialized", {});
  for (const document of vscode.workspace.textDocuments) opened(document);
}

function opened(document) {
  if (document.languageId !== "p4") return;
  const { languageId, version } = document;
  const textDocument = { ...identifier(document), languageId, version, text: document.getText() };
  server.notify("textDocument/didOpen", { textDocument });
}

async function activate(context) {
  const collection = vscode.languages.createDiagnosticCollection("p4");
  const isP4 = (document) => document.languageId === "p4";
  const workspace = vscode.workspace;
  const watcher = workspace.createFileSystemWatcher("**/*.p4");
  const watched = (uri) =>
    server.notify("workspace/didChangeWatchedFiles", { changes: [{ uri: uri.toString(), type: 2 }] });
  context.subscriptions.push(
    collection,
    watcher,
    watcher.onDidChange(watched),
    watcher.onDidCreate(watched),
    watcher.onDidDelete(watched),
    workspace.onDidOpenTextDocument(opened),
    workspace.onDidCloseTextDocument((document) => {
      if (isP4(document)) server.notify("textDocument/didClose", { textDocument: identifier(document) });
    }),
    workspace.onDidChangeTextDocument((event) => {
      if (!isP4(event.document) || event.contentChanges.length === 0) return;
      const textDocument = { ...identifier(event.document), version: event.document.version };
      // The editor's changes refer to the text before all of them, from its end; the protocol applies them in this order.
      const contentChanges = event.contentChanges.map((c) => ({
        range: { start: plain(c.range.start), end: plain(c.range.end) },
        text: c.text,
      }));
      server.notify("textDocument/didChange", { textDocument, contentChanges });
    }),
    workspace.onDidSaveTextDocument((document) => {
      if (isP4(document)) server.notify("textDocument/didSave", { textDocument: identifier(document) });
    }),
    vscode.commands.registerCommand("pointsman.restart", async () => {
      await server.stop();
      collection.clear();
      await start(collection);
    }),
    ...providers((method, params) => server.request(method, params))
  );
  await start(collection).catch(() => {});
}

async function deactivate() {
  if (server) await server.stop();
}

module.exports = { activate, deactivate };
