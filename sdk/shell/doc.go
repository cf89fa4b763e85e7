// Package shell contains the shell framework: the functions that hooks written in bash get with
//
//	source /shell_lib.sh
//
// They call the functions of a hook by the names of its bindings, read binding context and values, and
// write patches. The names and arguments are the same as in shell-operator and addon-operator; the code
// is not.
//
// The framework consists of shell_lib.sh and the files in frameworks/shell. With bash_env.sh, hooks can
// source this path even if the framework is not installed.
package shell

import "embed"

// Framework contains the files of the framework, with shell_lib.sh at the top. In a container they are in
// the root directory.
//
//go:embed shell_lib.sh bash_env.sh frameworks
var Framework embed.FS
