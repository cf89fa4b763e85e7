// Package shell contains the shell framework: the functions that hooks written in bash get with
//
//	source /shell_lib.sh
//
// The framework calls the functions that a hook declares for its bindings, reads the binding context and
// the values, and writes patches. Its functions have the same names and arguments as those of
// shell-operator and addon-operator. The implementation differs.
//
// The framework consists of shell_lib.sh and the files in frameworks/shell. If the framework is not
// installed, bash_env.sh makes hooks find it under the same path.
package shell

import "embed"

// Framework contains the files of the framework, with shell_lib.sh at the top. In a container they are in
// the root directory.
//
//go:embed shell_lib.sh bash_env.sh frameworks
var Framework embed.FS
