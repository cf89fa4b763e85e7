// Package failpoint kills the process at a named place. It does so only in programs that are built with the tag
// failpoint, for crash tests. In all other programs, and in the image, the calls do nothing.
package failpoint

// Variable is the name of the environment variable with the place at which the process kills itself, such as
// "module-run:claimed". If ":2" follows, the process kills itself when it reaches the place for the second time.
const Variable = "ADDON_OPERATOR_FAILPOINT"
