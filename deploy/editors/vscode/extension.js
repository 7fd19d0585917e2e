// Starts `placet lsp` and connects the editor with it. What is shown is the server's.
"use strict";

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate() {
  const settings = workspace.getConfiguration("placet");
  const server = {
    command: settings.get("command"),
    args: ["lsp", ...settings.get("arguments")],
    options: { cwd: workspace.workspaceFolders?.[0]?.uri.fsPath },
  };
  // The server leaves YAML alone that is not of Placet.
  const documentSelector = [{ language: "placet" }, { language: "yaml" }];
  client = new LanguageClient("placet", "Placet", server, { documentSelector });
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
