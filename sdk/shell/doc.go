// Package shell holds the shell framework: the functions that hooks written in bash get by
//
//	source /shell_lib.sh
//
// They call the functions of a hook by the names of its bindings, read binding context and values, and write patches.
// The names and arguments are those hooks of shell-operator and addon-operator know; the code is not.
//
// Its nouns are the framework itself, shell_lib.sh with the files in frameworks/shell, and bash_env.sh, which lets hooks
// source it by its name where it is not installed.
package shell

import "embed"

// Framework holds the files of the framework, shell_lib.sh at the top. In a container they lie in the root directory.
//
//go:embed shell_lib.sh bash_env.sh frameworks
var Framework embed.FS
