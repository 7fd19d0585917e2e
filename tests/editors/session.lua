-- A session of headless Neovim: opens a file, does what a user does, and writes what it saw as JSON.
-- The arguments are the file and the answer.

local file, answer = unpack(vim.fn.split(vim.env.PLACET_SESSION, "\n"))
local seen = {}

local function wait(what, test)
  if not vim.wait(20000, test, 20) then
    error("waited in vain for " .. what)
  end
end

local function keys(text)
  local typed = vim.api.nvim_replace_termcodes(text, true, false, true)
  vim.api.nvim_feedkeys(typed, "xt", false)
end

local function request(method)
  local params = vim.lsp.util.make_position_params(0, "utf-16")
  for _, found in pairs(vim.lsp.buf_request_sync(0, method, params, 20000) or {}) do
    return found.result
  end
end

local function session()
  vim.cmd("edit " .. vim.fn.fnameescape(file))
  wait("diagnostics", function() return #vim.diagnostic.get(0) > 0 end)
  local told = vim.diagnostic.get(0)[1]
  seen.diagnostic = { told.lnum, told.col, told.end_col, told.message }

  -- The first quick fix at the diagnostic, chosen by whoever is asked.
  vim.ui.select = function(items, _, choose) choose(items[1], 1) end
  vim.api.nvim_win_set_cursor(0, { told.lnum + 1, told.col })
  keys("<Leader>a")
  wait("the quick fix", function() return vim.fn.getline(told.lnum + 1):find("node.zone") end)
  wait("no diagnostics", function() return #vim.diagnostic.get(0) == 0 end)

  vim.fn.search("node.\\zszone", "w")
  seen.hover = request("textDocument/hover").contents.value

  vim.fn.search("require \\zsnear", "w")
  keys("gd")
  wait("the definition", function() return vim.fn.getline("."):find("let near") end)
  seen.definition = { vim.fn.line("."), vim.fn.col(".") }

  vim.fn.search("score", "w")
  vim.fn.append(vim.fn.line(".") - 1, '  filter "labels" { require node.labels["cap')
  vim.api.nvim_win_set_cursor(0, { vim.fn.line(".") - 1, 1000 })
  vim.cmd("startinsert!")
  seen.completion = {}
  local params = vim.lsp.util.make_position_params(0, "utf-16")
  params.position.character = #vim.fn.getline(".")
  for _, found in pairs(vim.lsp.buf_request_sync(0, "textDocument/completion", params, 20000)) do
    for _, item in ipairs(found.result) do
      table.insert(seen.completion, item.label)
    end
  end
  vim.cmd("stopinsert")
  vim.cmd("delete")

  keys("<Leader>f")
  wait("the format", function() return vim.fn.getline(1) == "policy near {" end)
  seen.text = vim.fn.join(vim.fn.getline(1, "$"), "\n")
end

local fine, problem = pcall(session)
seen.problem = not fine and tostring(problem) or nil
vim.fn.writefile({ vim.fn.json_encode(seen) }, answer)
vim.cmd("qall!")
