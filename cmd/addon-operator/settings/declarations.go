package settings

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// declarations are flags with their environment variables. If a flag is not set on the command
// line, the first of its variables that is not empty is used.
type declarations struct {
	flags     *pflag.FlagSet
	variables []variables
}

// variables are the environment variables of one flag.
type variables struct {
	flag  string
	names []string
}

func (d *declarations) text(p *string, flag, value, usage string, env ...string) {
	d.flags.StringVar(p, flag, value, usage)
	d.add(flag, env)
}

func (d *declarations) number(p *int, flag string, value int, usage string, env ...string) {
	d.flags.IntVar(p, flag, value, usage)
	d.add(flag, env)
}

func (d *declarations) rate(p *float64, flag string, value float64, usage string, env ...string) {
	d.flags.Float64Var(p, flag, value, usage)
	d.add(flag, env)
}

func (d *declarations) duration(p *time.Duration, flag string, value time.Duration, usage string, env ...string) {
	d.flags.DurationVar(p, flag, value, usage)
	d.add(flag, env)
}

// list declares a flag for values separated by commas.
func (d *declarations) list(p *[]string, flag, usage string, env ...string) {
	d.flags.StringSliceVar(p, flag, nil, usage)
	d.add(flag, env)
}

// toggle declares a flag whose default is the current value of p. If the flag is given without a
// value, the flag is true.
func (d *declarations) toggle(p *bool, flag, usage string, env ...string) {
	d.flags.Var((*yesNo)(p), flag, usage)
	d.flags.Lookup(flag).NoOptDefVal = "true"
	d.add(flag, env)
}

// add records the variables of a flag, and names them in its usage.
func (d *declarations) add(flag string, env []string) {
	d.variables = append(d.variables, variables{flag, env})
	d.flags.Lookup(flag).Usage += " [$" + strings.Join(env, ", $") + "]"
}

// readEnvironment sets each flag that was not set explicitly to the value of its first variable that is not empty. A
// flag whose variables are all empty keeps its default.
func (d *declarations) readEnvironment() error {
	for _, v := range d.variables {
		if d.flags.Changed(v.flag) {
			continue
		}
		for _, name := range v.names {
			value := os.Getenv(name)
			if value == "" {
				continue
			}
			if err := d.flags.Lookup(v.flag).Value.Set(value); err != nil {
				return Invalid("variable %s: %w", name, err)
			}
			break
		}
	}
	return nil
}
