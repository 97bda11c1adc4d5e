// An editor as far as the extension needs one: loads the extension, opens a file, asks for what an editor asks for, and prints the answers.
"use strict";

const fs = require("fs");
const Module = require("module");

const [folder, file, binary] = process.argv.slice(2);
const said = { errors: [], settings: [] };
const values = { path: binary, includeDirs: [], defines: [], formatWidth: 60 };
const providers = {};
let published;
const diagnostics = new Promise((resolve) => (published = resolve));

/** A class that keeps the arguments of its constructor under these names. */
const record = (...names) =>
  class {
    constructor(...args) {
      names.forEach((name, i) => (this[name] = args[i]));
    }
  };

const register = (name) => (selector, provider) => {
  providers[name] = provider;
  return { dispose() {} };
};
const uri = { toString: () => `file://${file}`, fsPath: file };
const document = { uri, languageId: "p4", version: 1, getText: () => fs.readFileSync(file, "utf8") };
const event = () => ({ dispose() {} });

class WorkspaceEdit {
  constructor() {
    this.edits = [];
  }
  set(target, edits) {
    this.edits.push(...edits);
  }
}

const vscode = {
  Position: record("line", "character"),
  Range: record("start", "end"),
  Location: record("uri", "range"),
  TextEdit: record("range", "newText"),
  Diagnostic: record("range", "message", "severity"),
  DiagnosticRelatedInformation: record("location", "message"),
  Hover: record("contents", "range"),
  MarkdownString: record("value"),
  CodeAction: record("title", "kind"),
  WorkspaceEdit,
  CodeActionKind: { QuickFix: "quickfix" },
  DiagnosticSeverity: { Error: 0, Warning: 1 },
  FoldingRangeKind: { Comment: 1, Imports: 2 },
  Uri: { parse: (text) => ({ toString: () => text }) },
  commands: { registerCommand: event },
  window: { showErrorMessage: (text) => said.errors.push(text) },
  languages: new Proxy(
    {
      createDiagnosticCollection: () => ({
        set: (target, list) => target.toString() === uri.toString() && published(list),
        clear() {},
      }),
    },
    { get: (known, name) => known[name] || register(name) }
  ),
  workspace: {
    workspaceFolders: undefined,
    textDocuments: [document],
    getConfiguration: () => ({
      get: (name) => {
        said.settings.push(name);
        return values[name];
      },
    }),
    createFileSystemWatcher: () => ({ onDidChange: event, onDidCreate: event, onDidDelete: event, dispose() {} }),
    onDidOpenTextDocument: event,
    onDidCloseTextDocument: event,
    onDidChangeTextDocument: event,
    onDidSaveTextDocument: event,
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

async function main() {
  const extension = require(folder);
  await extension.activate({ subscriptions: [] });
  said.diagnostics = (await diagnostics).filter((d) => d.severity === vscode.DiagnosticSeverity.Error);
  const hover = await providers.registerHoverProvider.provideHover(document, { line: 1, character: 14 });
  said.hover = hover.contents.value;
  const fixes = await providers.registerCodeActionsProvider.provideCodeActions(document, said.diagnostics[0].range, said);
  said.fix = [fixes[0].title, fixes[0].edit.edits[0].newText];
  const edits = await providers.registerDocumentFormattingEditProvider.provideDocumentFormattingEdits(document, {});
  said.formatted = edits[0].newText;
  await extension.deactivate();
  process.stdout.write(JSON.stringify(said));
}

main().catch((e) => {
  process.stderr.write(`${e.stack}\n`);
  process.exit(1);
});
