package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/bytesize"
	"github.com/millrace-io/millrace/server/internal/server"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// A serveConfig is the configuration of millrace serve. Its options come from flags, the
// environment and a file. Flags take precedence over the environment, and the environment takes
// precedence over the file.
type serveConfig struct {
	server.Config
	file                string // path of the configuration file; "" for none
	fromVar             bool   // file comes from configVar, not from --config
	logFormat, logLevel string

	groups []server.FlagGroup // the flags for all fields above except file
	flags  *pflag.FlagSet     // the same flags as groups
	from   map[string]string  // where each flag was set, by flag name; for messages
}

const (
	// configVar is the environment variable with the path of the configuration file, if --config is
	// not set.
	configVar = "MILLRACE_CONFIG"

	// maxConfig is the maximum size of the configuration file in bytes. All flags together need
	// much less.
	maxConfig = 1 << 20

	fromFlag = "the command line"
)

// variable returns the name of the environment variable for a flag.
func variable(flag string) string {
	return "MILLRACE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func newServeConfig() *serveConfig {
	c := &serveConfig{Config: server.Defaults(), from: make(map[string]string), logFormat: "text",
		logLevel: "info"}
	c.Version = version()
	c.groups = append(c.Flags(), server.FlagGroup{Title: "Configuration and log",
		Flags: []server.Flag{
			{Name: "log-format", Value: &c.logFormat, Help: "text or json"},
			{Name: "log-level", Value: &c.logLevel, Help: "debug, info, warn or error"},
		}})
	c.flags = pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.flags.SortFlags = false
	for flag := range c.all() {
		bind(c.flags, flag)
	}
	return c
}

func (c *serveConfig) all() iter.Seq[server.Flag] {
	return func(yield func(server.Flag) bool) {
		for _, group := range c.groups {
			for _, flag := range group.Flags {
				if !yield(flag) {
					return
				}
			}
		}
	}
}

func bind(f *pflag.FlagSet, flag server.Flag) {
	help := flag.Help
	if flag.Secret {
		help += " ($" + variable(flag.Name) + " does not show in ps)"
	}
	switch v := flag.Value.(type) {
	case *string:
		f.StringVar(v, flag.Name, *v, help)
	case *bool:
		f.BoolVar(v, flag.Name, *v, help)
	case *int:
		f.IntVar(v, flag.Name, *v, help)
	case *time.Duration:
		f.DurationVar(v, flag.Name, *v, help)
	case pflag.Value:
		f.Var(v, flag.Name, help)
	default:
		panic(fmt.Sprintf("millrace: --%s is for a %T", flag.Name, v))
	}
}

// addTo adds the flags to cmd and sets a help text that lists them in groups. The flags in extra
// become part of the last group.
func (c *serveConfig) addTo(cmd *cobra.Command, extra *pflag.FlagSet) {
	cmd.Flags().SortFlags = false
	cmd.InitDefaultHelpFlag()
	extra.AddFlag(cmd.Flags().Lookup("help"))
	var help strings.Builder
	for i, group := range c.groups {
		set := pflag.NewFlagSet(group.Title, pflag.ContinueOnError)
		set.SortFlags = false
		var variables string
		for _, flag := range group.Flags {
			if flag.NoCommand {
				variables += fmt.Sprintf("      $%s: %s, which does not show in ps\n",
					variable(flag.Name), flag.Help)
			} else {
				set.AddFlag(c.flags.Lookup(flag.Name))
			}
		}
		if i == len(c.groups)-1 {
			set.AddFlagSet(extra)
		}
		fmt.Fprintf(&help, "\n%s:\n%s%s", group.Title, set.FlagUsagesWrapped(helpWidth), variables)
		cmd.Flags().AddFlagSet(set)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n%s", cmd.UseLine(),
			cmd.Example, &help)
		return err
	})
}

const helpWidth = 110

// reread returns a new configuration with the flags from the same command line. It reads the
// environment and the file again.
func (c *serveConfig) reread() (*serveConfig, error) {
	next := newServeConfig()
	next.file, next.fromVar, next.Log = c.file, c.fromVar, c.Log
	var err error
	c.flags.VisitAll(func(f *pflag.Flag) {
		if c.from[f.Name] == fromFlag {
			err = cmp.Or(err, next.flags.Set(f.Name, f.Value.String()))
		}
	})
	if err != nil {
		return nil, err
	}
	return next, next.read()
}

// read sets the options that were not set on the command line, from the environment and the file.
// It then checks all options.
func (c *serveConfig) read() error {
	var err error
	c.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			c.from[f.Name] = fromFlag
		} else if value := os.Getenv(variable(f.Name)); value != "" && err == nil {
			// An empty variable is treated as not set, because Compose sets variables to "".
			err = c.set(f.Name, value, "$"+variable(f.Name), "$"+variable(f.Name))
		}
	})
	if c.file == "" {
		c.file, c.fromVar = os.Getenv(configVar), true
	}
	if c.file != "" && err == nil {
		err = c.readFile()
	}
	if err != nil {
		return err
	}
	c.RTMPOptional = c.from["rtmp"] == ""
	return c.addSources(cmp.Or(c.uselessFlag(), c.Check()))
}

// serviceVariable matches variables of the form NAME=VALUE that Kubernetes sets for a service
// called millrace or millrace-*. It matches MILLRACE_PORT only if the value is a URL.
var serviceVariable = regexp.MustCompile(
	`^\w+(_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)=|^\w+_PORT=\w+://`)

// unknownVariables returns the names of the variables in env that begin with MILLRACE_ and belong
// to no flag. It omits the variables that Kubernetes sets for a service.
func (c *serveConfig) unknownVariables(env []string) (names []string) {
	known := []string{configVar}
	c.flags.VisitAll(func(f *pflag.Flag) { known = append(known, variable(f.Name)) })
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		upper := strings.ToUpper(name)
		if strings.HasPrefix(upper, "MILLRACE_") && !slices.Contains(known, name) &&
			!strings.HasPrefix(name, server.PushVariable) &&
			!serviceVariable.MatchString(v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// set sets a flag and records the source of its value, such as a line of the configuration file.
// The argument displayName is the name of the flag in errors.
func (c *serveConfig) set(flag, value, source, displayName string) error {
	c.from[flag] = source
	err := c.flags.Set(flag, value)
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongValue(displayName, invalid)
	}
	return err
}

// readFile sets the options that are not set yet. The file is a YAML mapping from flag names to
// scalars.
func (c *serveConfig) readFile() error {
	from := "--config"
	if c.fromVar {
		from = "$" + configVar
	}
	f, err := os.Open(c.file)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", from, err)
	case len(text) > maxConfig:
		return fmt.Errorf("%s: %s is longer than %s", from, c.file, bytesize.Format(maxConfig))
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // empty, or only comments
	} else if err != nil {
		return fmt.Errorf("%s: %s", c.file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: want one document, and there is another one after it", c.file)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want lines such as max-viewers: 1000", c.file, root.Line)
	}
	lines := make(map[string]int)
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at, name := fmt.Sprintf("%s:%d", c.file, key.Line), key.Value
		switch {
		case c.flags.Lookup(name) == nil:
			return fmt.Errorf("%s: millrace serve has no flag --%s: see millrace serve --help", at,
				name)
		case lines[name] > 0:
			return fmt.Errorf("%s: %s is in line %d already", at, name, lines[name])
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s: %s is a list, a mapping or an alias, want one value", at, name)
		case value.Tag == "!!null":
			return fmt.Errorf(`%s: %s has no value: write "" for none`, at, name)
		}
		lines[name] = key.Line
		if c.from[name] == "" {
			if err := c.set(name, value.Value, at, at+": "+name); err != nil {
				return err
			}
		}
	}
	return nil
}

var flagName = regexp.MustCompile(`--[a-z-]+`)

// addSources adds information to an error that mentions flags. For each flag that was not set on
// the command line, it adds the source of the value, such as a line of the configuration file.
func (c *serveConfig) addSources(err error) error {
	if err == nil {
		return nil
	}
	var places []string
	for _, name := range flagName.FindAllString(err.Error(), -1) {
		name = name[2:]
		from := c.from[name]
		if place := name + ": " + from; from != "" && from != fromFlag &&
			!slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	if places == nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(places, ", "))
}

// uselessFlag returns an error if a flag has no effect because another flag is not set. It ignores
// flags from the environment, because the variables may be for other servers as well.
func (c *serveConfig) uselessFlag() error {
	for flag := range c.all() {
		if from := c.from[flag.Name]; from == "" || strings.HasPrefix(from, "$") {
			continue
		}
		given := func(name string) bool { return c.flags.Lookup(name).Value.String() != "" }
		if len(flag.Needs) > 0 && !slices.ContainsFunc(flag.Needs, given) {
			return fmt.Errorf("--%s has no effect without --%s", flag.Name,
				strings.Join(flag.Needs, " or --"))
		}
	}
	return nil
}

// print writes a configuration file for --config, with the defaults as comments. It hides secrets.
func (c *serveConfig) print(w io.Writer) error {
	var text bytes.Buffer
	text.WriteString(
		"# The configuration of millrace serve, for --config. Defaults are comments. Secrets are hidden: set them again.\n")
	for _, group := range c.groups {
		fmt.Fprintf(&text, "\n# %s\n\n", group.Title)
		for _, flag := range group.Flags {
			c.printFlag(&text, flag)
		}
	}
	_, err := w.Write(text.Bytes())
	return err
}

func (c *serveConfig) printFlag(text *bytes.Buffer, flag server.Flag) {
	f := c.flags.Lookup(flag.Name)
	from, value := c.from[f.Name], f.Value.String()
	switch {
	case flag.Secret && value != "" || hasPassword(value):
		fmt.Fprintf(text, "# %s: hidden, from %s\n", f.Name, from)
		return
	case from == "":
		text.WriteString("# ")
	}
	line := []byte(f.Name + ": " + value)
	if t := f.Value.Type(); t == "string" || t == "word" {
		line, _ = yaml.Marshal(map[string]string{f.Name: value}) // quotes the value; cannot fail
	}
	text.Write(bytes.TrimSpace(line))
	if from != "" && !bytes.ContainsRune(line[:len(line)-1], '\n') {
		text.WriteString(" # " + from)
	}
	text.WriteByte('\n')
}

// hasPassword reports whether value is a URL with a password. It also returns true for a URL that
// cannot be parsed but may contain a password.
func hasPassword(value string) bool {
	scheme, rest, ok := strings.Cut(value, "://")
	if !ok {
		return false
	}
	if u, err := url.Parse(scheme + "://" + rest); err == nil {
		_, has := u.User.Password()
		return has || strings.Contains(u.RawQuery, "password")
	}
	return strings.ContainsAny(rest, "@")
}
