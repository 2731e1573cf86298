package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace/server/internal/server"
)

// writePage writes docs/flags.md.
func (c *serveConfig) writePage(w io.Writer) {
	fmt.Fprint(w, `# The flags of millrace serve

Each flag is also a variable, as in `+"`MILLRACE_MAX_VIEWERS`"+`, and a key of the file of `+"`--config`"+`: see
[deploy.md](deploy.md#configuration). `+"`millrace serve --help`"+` has the same list, with what stands on the command line alone, and `+"`--print-config`"+` says which value counts, and
where it is from. What begins with `+"`$`"+` is a variable or a key, and no flag.

Sizes are whole numbers of bytes, or have a unit: `+"`KiB` to `TiB` are powers of 1024, and so are `K` to `T`; `KB` to `TB`"+` are powers
of 1000. Times are such as `+"`300ms`, `1m30s` or `2h`"+`.

<!-- Made by go test ./server/cmd/millrace -run TestFlagsPage -update -->
`)
	for _, group := range c.groups {
		fmt.Fprintf(w, "\n## %s\n\n| flag | default | |\n|---|---|---|\n", group.Title)
		for _, flag := range group.Flags {
			c.writeRow(w, flag)
		}
	}
}

func (c *serveConfig) writeRow(w io.Writer, flag server.Flag) {
	name := "`--" + flag.Name + "`"
	if flag.NoCommand {
		name = "`$" + variable(flag.Name) + "`"
	}
	if flag.Page != "" {
		name = "[" + name + "](" + flag.Page + ")"
	}
	value := c.flags.Lookup(flag.Name).DefValue
	if value == "" || value == "false" {
		value = "–"
	}
	help := strings.NewReplacer("|", "\\|", "*", "\\*", "<", "&lt;").Replace(flag.Help)
	fmt.Fprintf(w, "| %s | %s | %s |\n", name, strings.ReplaceAll(value, "*", "\\*"), help)
}
