// Package shell contains the shell framework. The framework is a library of functions for hooks in bash. A hook loads
// the framework with
//
//	source /shell_lib.sh
//
// The framework calls the function that the hook declares for a binding. Other functions of the framework read the
// binding context and the values, and write patches. The functions of the framework have the same names and arguments
// as those of shell-operator and addon-operator, but another implementation.
//
// The framework consists of shell_lib.sh and the files in frameworks/shell. If the framework is not installed in the
// root directory, bash_env.sh makes the command "source /shell_lib.sh" load the framework from another directory.
package shell

import "embed"

// Framework contains the files of the framework, with shell_lib.sh at the top. In the image of the operator, the
// files are in the root directory.
//
//go:embed shell_lib.sh bash_env.sh frameworks
var Framework embed.FS
