// Package failpoint kills the process at a named place in the code, for crash tests. It does so only in programs that
// are built with the build tag failpoint. In all other programs, such as that in the image, its functions do nothing.
package failpoint

// Variable is the name of an environment variable. Its value is the place at which the process kills itself, such as
// "module-run:claimed". If ":2" is appended to the place, the process kills itself when it reaches the place for the
// second time.
const Variable = "ADDON_OPERATOR_FAILPOINT"
