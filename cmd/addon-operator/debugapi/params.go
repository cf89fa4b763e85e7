package debugapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/workflow/inspect"
)

// debugFor is the default duration of the log level debug. The duration is limited, because people forget to reset the
// level, and debug output fills disks.
const debugFor = 30 * time.Minute

// Names of the settings in [Params], as in flant/addon-operator.
const (
	LogLevel        = "log.level"
	LogConfigEvents = "log.configmap.events"
)

// Params are the settings that can be changed while the operator runs. A change lasts until its
// duration has passed, or until the process ends.
type Params struct {
	log zerolog.Logger

	mu  sync.Mutex
	all []*param
}

// A param is one of the settings in [Params].
type param struct {
	name, about string
	// set puts a value in force. set returns an error if the value is invalid.
	set func(value string) error
	// lasts returns the default duration of a change to a value; 0 means until the process ends. If
	// lasts is nil, each change lasts until the process ends, unless a person names a duration.
	lasts func(value string) time.Duration

	initial, value string
	until          time.Time
	back           *time.Timer
}

// NewParams returns the parameters with their initial values, and puts these values in force. The initial log level is
// the level in the settings s. showConfigEvents is called with each value of [LogConfigEvents].
func NewParams(s settings.Settings, log zerolog.Logger, showConfigEvents func(bool)) (*Params, error) {
	p := &Params{log: log, all: []*param{
		{
			name: LogLevel, about: "debug, info, warn or error; without a duration, debug lasts 30m, unless it is the level at the start", initial: LevelOf(s.LogLevel),
			set: SetLogLevel,
			lasts: func(value string) time.Duration {
				if value == "debug" {
					return debugFor
				}
				return 0
			},
		},
		{
			name: LogConfigEvents, about: "log each change of the ConfigMap as it is seen: true or false", initial: "false",
			set: func(value string) error {
				show, err := strconv.ParseBool(value)
				if err != nil {
					return errors.New("it can be true or false")
				}
				showConfigEvents(show)
				return nil
			},
		},
	}}
	for _, one := range p.all {
		one.value = one.initial
		if err := one.set(one.value); err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return p, nil
}

// LevelOf returns the log level that is nearest to a level of flant/addon-operator, whose loggers have more levels.
// LevelOf returns any other word in lower case.
func LevelOf(word string) string {
	switch word = strings.ToLower(word); word {
	case "trace":
		return "debug"
	case "warning":
		return "warn"
	case "critical", "fatal", "none":
		return "error"
	default:
		return word
	}
}

// SetLogLevel sets the level of the log of the whole process.
func SetLogLevel(value string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, value) {
		return errors.New("it can be debug, info, warn or error")
	}
	level, err := zerolog.ParseLevel(value)
	if err != nil {
		return err
	}
	zerolog.SetGlobalLevel(level)
	return nil
}

// Set sets a parameter, and returns a sentence about the new value. The argument lasts is the duration after which the
// parameter is reset to its initial value. If lasts is 0, the default duration of the value applies; but the initial
// value lasts until the process ends.
func (p *Params) Set(name, value string, lasts time.Duration) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.all, func(one *param) bool { return one.name == name })
	if i < 0 {
		return "", notFound("nothing is called %q; see addon-operator config list", name)
	}
	one := p.all[i]
	if err := one.set(value); err != nil {
		return "", BadRequest("%s is %q; %w", name, value, err)
	}
	if one.back != nil {
		one.back.Stop()
		one.back, one.until = nil, time.Time{}
	}
	one.value = value
	if lasts == 0 && one.lasts != nil && value != one.initial {
		lasts = one.lasts(value)
	}
	said := fmt.Sprintf("%s is %s until the operator ends", name, value)
	if lasts > 0 {
		one.until = time.Now().Add(lasts)
		one.back = time.AfterFunc(lasts, func() { p.putBack(one) })
		said = fmt.Sprintf("%s is %s for %s", name, value, lasts)
	}
	p.log.Info().Str("name", name).Str("value", value).Dur("lasts", lasts).Msg("a parameter was set")
	return said, nil
}

// putBack sets a parameter to its initial value.
func (p *Params) putBack(one *param) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.until.IsZero() || time.Now().Before(one.until) {
		return // a person has set the parameter again after the timer fired
	}
	one.value, one.until, one.back = one.initial, time.Time{}, nil
	_ = one.set(one.value) // cannot fail, because the initial value is valid
	p.log.Info().Str("name", one.name).Str("value", one.value).Msg("parameter reset to its initial value")
}

// A ParamLine is one parameter with its value.
type ParamLine struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Initial string `json:"initial"`
	// Until is the time at which the value is reset; nil means never.
	Until *time.Time `json:"until,omitempty"`
	About string     `json:"about"`
}

// List returns the parameters with their values.
func (p *Params) List() []ParamLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []ParamLine
	for _, one := range p.all {
		line := ParamLine{Name: one.name, Value: one.value, Initial: one.initial, About: one.about}
		if !one.until.IsZero() {
			until := one.until
			line.Until = &until
		}
		lines = append(lines, line)
	}
	return lines
}

// errNoParams is the error of requests about parameters if no operator runs.
var errNoParams = &routeError{http.StatusConflict, errors.New("parameters are in the memory of a running operator: ask a running operator, and leave --store out")}

// configRoute serves the list of parameters.
func (p *Params) configRoute(_ *http.Request, what string) (Page, error) {
	if what != "list" {
		return Page{}, notFound("there is no /config/%s: ask for /config/list, or send a form to /config/set", what)
	}
	if p == nil {
		return Page{}, errNoParams
	}
	lines := p.List()
	return Page{lines, func(layout inspect.Layout) string { return ParamsText(lines, layout) }}, nil
}

// ParamsText returns the parameters and their values as a table.
func ParamsText(lines []ParamLine, layout inspect.Layout) string {
	rows := [][]string{{"NAME", "VALUE", "UNTIL", "ABOUT"}}
	for _, line := range lines {
		until := "-"
		if line.Until != nil {
			until = layout.Clock(*line.Until)
		}
		rows = append(rows, []string{line.Name, line.Value, until, line.About})
	}
	return layout.Table(rows)
}

// configSetRoute sets the parameter in the form: name, value and optionally duration.
func (act actions) configSetRoute(w http.ResponseWriter, r *http.Request) {
	if act.params == nil {
		Fail(w, errNoParams)
		return
	}
	lasts := time.Duration(0)
	if text := r.FormValue("duration"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil || lasts <= 0 {
			Fail(w, BadRequest("duration must be above 0, such as 10m (got %q)", text))
			return
		}
	}
	name, value := r.FormValue("name"), r.FormValue("value")
	said, err := act.params.Set(name, value, lasts)
	if err != nil {
		Fail(w, err)
		return
	}
	_, _ = fmt.Fprintln(w, said)
	act.carriedOut(w, r, "config set", strings.TrimSpace(name+" "+value+" "+r.FormValue("duration")))
}
