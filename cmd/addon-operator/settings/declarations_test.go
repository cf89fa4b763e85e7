package settings

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// declared returns the flags of the settings.
func declared() *pflag.FlagSet {
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	f.SetNormalizeFunc(ByAlias)
	Declare(new(Settings), f)
	return f
}

// variablesOf returns the variables in the usage of a flag.
func variablesOf(f *pflag.Flag) (names []string) {
	for _, found := range regexp.MustCompile(`\$([A-Z0-9_]+)`).FindAllStringSubmatch(f.Usage, -1) {
		names = append(names, found[1])
	}
	return names
}

// unsetVariables empties the variables of all flags until the test ends.
func unsetVariables(t *testing.T) {
	t.Helper()
	declared().VisitAll(func(f *pflag.Flag) {
		for _, name := range variablesOf(f) {
			t.Setenv(name, "")
		}
	})
}

// other returns a value of a flag that is not its default.
func other(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "7777"
	case "float64":
		return "2.5"
	case "duration":
		return "93s"
	case "stringSlice":
		return "one,two"
	case "bool":
		if f.DefValue == "true" {
			return "no"
		}
		return "yes"
	default:
		return "something else"
	}
}

// TestEachVariableHasTheEffectOfItsFlag sets each flag alone, and then each variable that the help of the flag names.
// The settings must be the same.
func TestEachVariableHasTheEffectOfItsFlag(t *testing.T) {
	unsetVariables(t)
	defaults := parse(t)
	owner := map[string]string{} // the flag of a variable
	var seen []Settings
	declared().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		want := parse(t, "--"+f.Name+"="+other(f))
		if reflect.DeepEqual(want, defaults) {
			t.Errorf("--%s=%s changes no setting", f.Name, other(f))
		}
		for _, s := range seen {
			if reflect.DeepEqual(want, s) {
				t.Errorf("--%s changes the setting of another flag", f.Name)
			}
		}
		seen = append(seen, want)
		names := variablesOf(f)
		if len(names) == 0 {
			t.Errorf("the help of --%s names no variable: %s", f.Name, f.Usage)
		}
		for _, name := range names {
			if owner[name] != "" {
				t.Errorf("--%s and --%s read the variable %s", owner[name], f.Name, name)
			}
			owner[name] = f.Name
			t.Setenv(name, other(f))
			if got := parse(t); !reflect.DeepEqual(got, want) {
				t.Errorf("variable %s has another effect than --%s:\n%+v\nwant\n%+v", name, f.Name, got, want)
			}
			t.Setenv(name, "")
		}
	})
	if len(seen) < 50 {
		t.Errorf("only %d flags are declared", len(seen))
	}
}

func TestTheFirstVariableOfTheHelpComesFirst(t *testing.T) {
	unsetVariables(t)
	declared().VisitAll(func(f *pflag.Flag) {
		names := variablesOf(f)
		if len(names) < 2 || f.Value.Type() != "string" {
			return
		}
		for _, name := range names {
			t.Setenv(name, "of "+name)
		}
		var s Settings
		flags := pflag.NewFlagSet("start", pflag.ContinueOnError)
		if err := Declare(&s, flags)(); err != nil {
			t.Fatal(err)
		}
		if got := flags.Lookup(f.Name).Value.String(); got != "of "+names[0] {
			t.Errorf("--%s has the value %q with the variables %q", f.Name, got, names)
		}
		for _, name := range names {
			t.Setenv(name, "")
		}
	})
}

func TestTheDefaultsAreValid(t *testing.T) {
	unsetVariables(t)
	s := parse(t)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings: %q", s.Warnings)
	}
}

func TestAToggleUnderstandsTheWordsForYesAndNo(t *testing.T) {
	for word, want := range map[string]bool{
		"yes": true, "YES": true, "on": true, "On": true, "true": true, "1": true, "t": true,
		"no": false, "No": false, "off": false, "OFF": false, "false": false, "0": false, "F": false,
	} {
		if got := parse(t, "--queue-actions-metrics="+word).QueueActions; got != want {
			t.Errorf("--queue-actions-metrics=%s is %t", word, got)
		}
		t.Setenv("DEBUG_KEEP_TMP_FILES", word)
		if got := parse(t).KeepTemp; got != want {
			t.Errorf("DEBUG_KEEP_TMP_FILES=%s is %t", word, got)
		}
	}
	for _, word := range []string{"maybe", "2", "enabled"} {
		t.Setenv("DEBUG_KEEP_TMP_FILES", word)
		if err := Declare(new(Settings), pflag.NewFlagSet("start", pflag.ContinueOnError))(); err == nil || !strings.Contains(err.Error(), "variable DEBUG_KEEP_TMP_FILES: ") || !isError(err) {
			t.Errorf("DEBUG_KEEP_TMP_FILES=%s: error %v", word, err)
		}
	}
}

func TestAToggleShowsItsDefaultInTheHelp(t *testing.T) {
	t.Parallel()
	f := declared()
	for name, want := range map[string]string{"queue-actions-metrics": "true", "web-actions": "false", "log-no-time": "false"} {
		if got := f.Lookup(name); got.DefValue != want || got.Value.Type() != "bool" {
			t.Errorf("--%s: default %q of type %q, want %s", name, got.DefValue, got.Value.Type(), want)
		}
	}
}

func TestTheErrorOfAVariableKeepsTheFlagUnset(t *testing.T) {
	unsetVariables(t)
	for name, value := range map[string]string{
		"ADDON_OPERATOR_HISTORY_AGE": "a week", "KUBE_CLIENT_QPS": "many", "HELM_HISTORY_MAX": "1.5", "ADDON_OPERATOR_PARALLEL_MODULES": "two",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			err := Declare(new(Settings), pflag.NewFlagSet("start", pflag.ContinueOnError))()
			if err == nil || !strings.HasPrefix(err.Error(), "variable "+name+": ") || !isError(err) {
				t.Errorf("error %[1]v of type %[1]T", err)
			}
		})
	}
}

// TestAFlagHidesAVariableThatCannotBeRead sets the variable of a number to a text that is not a number, and also sets
// the flag. The value of the flag must apply.
func TestAFlagHidesAVariableThatCannotBeRead(t *testing.T) {
	unsetVariables(t)
	t.Setenv("HELM_HISTORY_MAX", "many")
	if got := parse(t, "--helm-history-max=3").HelmHistoryMax; got != 3 {
		t.Errorf("--helm-history-max is %d", got)
	}
}

func TestAliasesAreNamesOfFlags(t *testing.T) {
	t.Parallel()
	f := declared()
	for alias, name := range Aliases {
		if found := f.Lookup(alias); found == nil || found.Name != name {
			t.Errorf("--%s is the flag %+v, want --%s", alias, found, name)
		}
	}
	if got := ByAlias(f, "hooks"); got != "hooks" {
		t.Errorf("the name hooks is normalized to %q", got)
	}
}

func TestUnservedSettingsAreHiddenAndSilentUntilTheyAreSet(t *testing.T) {
	unsetVariables(t)
	for _, s := range NotServed {
		t.Setenv(s.Env, "")
	}
	if s := parse(t); len(s.Warnings) > 0 {
		t.Errorf("warnings without such a setting: %q", s.Warnings)
	}
	f := declared()
	for _, s := range NotServed {
		var want []string
		var flags []string
		if s.Flag != "" {
			if found := f.Lookup(s.Flag); found == nil || !found.Hidden {
				t.Errorf("--%s is not a hidden flag: %+v", s.Flag, found)
			}
			flags, want = []string{"--" + s.Flag + "=x"}, []string{"flag --" + s.Flag + " has no effect: " + s.Why}
		}
		t.Setenv(s.Env, "x")
		want = append(want, "variable "+s.Env+" has no effect: "+s.Why)
		if diff := cmp.Diff(want, parse(t, flags...).Warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Env, diff)
		}
		t.Setenv(s.Env, "")
	}
}

func TestTheReasonOfAnInvalidSettingIsKept(t *testing.T) {
	t.Parallel()
	err := Invalid("--store: %w; name another file", os.ErrPermission)
	if !errors.Is(err, os.ErrPermission) || err.Error() != "--store: permission denied; name another file" {
		t.Errorf("error %v", err)
	}
}

func TestTheOwnPodIsTheNamedOneOrThatOfTheHostName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	unsetVariables(t)
	s := parse(t)
	if got := s.OwnPod(); got != host {
		t.Errorf("the pod is %q, want the host name %q", got, host)
	}
	t.Setenv("POD_NAME", "addon-operator-0")
	s = parse(t)
	if got := s.OwnPod(); got != "addon-operator-0" {
		t.Errorf("the pod is %q", got)
	}
}
