package shell_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// needsAbsent skips the test if the framework is installed, because bash_env.sh does nothing in this case.
func needsAbsent(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/shell_lib.sh"); err == nil {
		t.Skip("/shell_lib.sh is there")
	}
}

func TestFrameworkIsSourcedByItsNameWhereItIsNotInstalled(t *testing.T) {
	t.Parallel()
	needsAbsent(t)
	library := filepath.Join(t.TempDir(), "library.sh")
	const declares = "mine() { echo mine; }\nlist=(a b)\necho \"args: $*\"\n"
	if err := os.WriteFile(library, []byte(declares), 0o600); err != nil {
		t.Fatal(err)
	}
	through := filepath.Join(t.TempDir(), "through.sh")
	if err := os.WriteFile(through, []byte("source /shell_lib.sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const end = "\n__config__() { echo configured; }\nhook::run \"$@\"\n"
	for name, test := range map[string]struct {
		hook hook
		want string
	}{
		"source":         {hook{script: "#!/bin/bash\nsource /shell_lib.sh" + end}, "configured\n"},
		"dot":            {hook{script: "#!/bin/bash\n. /shell_lib.sh" + end}, "configured\n"},
		"quoted":         {hook{script: "#!/bin/bash\nsource \"/shell_lib.sh\"" + end}, "configured\n"},
		"below a prefix": {hook{script: "#!/bin/bash\nsource $FRAMEWORK_DIR/shell_lib.sh" + end}, "configured\n"},
		"set -u first":   {hook{script: "#!/bin/bash\nset -u\nsource /shell_lib.sh" + end}, "configured\n"},
		"bash -eu":       {hook{script: "#!/bin/bash -eu\nsource /shell_lib.sh" + end, with: []string{"bash", "-eu"}}, "configured\n"},
		"another file":   {hook{script: "#!/bin/bash\nsource " + through + end}, "configured\n"},
		"in a function": {
			hook{script: "#!/bin/bash\nload() { source /shell_lib.sh; }\nload" + end}, "configured\n",
		},
		"other files before and behind": {
			hook{script: "#!/bin/bash\nsource " + library + "\nmine\nsource /shell_lib.sh\nsource " + library + " x\necho ${list[1]}" + end},
			"args: --config\nmine\nargs: x\nb\nconfigured\n",
		},
		"nothing is left": {
			hook{script: "#!/bin/bash\nsource /shell_lib.sh\ntype -t source . \necho \"${!_framework@}\"" + end}, "builtin\nbuiltin\n\nconfigured\n",
		},
		"in bash -c": {hook{script: "#!/bin/bash\nbash -c 'source /shell_lib.sh; declare -F hook::run'"}, "hook::run\n"},
		"in a script that the hook starts": {
			hook{script: "#!/bin/bash\necho 'source /shell_lib.sh; declare -F hook::run' >child\nbash child"}, "hook::run\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.hook.args = []string{"--config"}
			test.hook.want(t, test.want)
		})
	}
}

func TestScriptsWithoutTheFrameworkAreLeftAlone(t *testing.T) {
	t.Parallel()
	library := filepath.Join(t.TempDir(), "library.sh")
	if err := os.WriteFile(library, []byte("declare -A map=([a]=b)\necho \"$1 ${#BASH_SOURCE[@]}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "own.sh")
	if err := os.WriteFile(own, []byte("own=yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		hook hook
		want string
	}{
		"bash":     {hook{script: "#!/bin/bash\nsource " + library + "\ntype -t source; echo ${map[a]} $-"}, "arg 2\nbuiltin\nb hB\n"},
		"bash -p":  {hook{script: "#!/bin/bash -p\ntype -t source", with: []string{"bash", "-p"}}, "builtin\n"},
		"sh":       {hook{script: "#!/bin/sh\nset -eu\necho \"$1\"", with: []string{"sh"}}, "arg\n"},
		"own file": {hook{script: "#!/bin/bash\nexport BASH_ENV=" + own + "\nbash -c 'echo $own'"}, "yes\n"},
		"the user's file": {
			hook{script: "#!/bin/bash\necho $own", env: []string{"ADDON_OPERATOR_BASH_ENV=" + own}}, "yes\n",
		},
		"the user's file with the framework": {
			hook{script: "#!/bin/bash\nsource /shell_lib.sh\necho $own", env: []string{"ADDON_OPERATOR_BASH_ENV=" + own}}, "yes\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(test.hook.script, "/shell_lib.sh") {
				needsAbsent(t)
			}
			test.hook.args = []string{"arg"}
			r := test.hook.want(t, test.want)
			if r.stderr != "" {
				t.Errorf("said %q", r.stderr)
			}
		})
	}
}
