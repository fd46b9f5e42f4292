// Package debugpage shows the reflectors of a process: as a page for people and as
// JSON for programs.
//
//	page, err := debugpage.New(debugpage.Config{Registry: &registry})
//	mux.Handle("GET /debug/reflectors", page)
//
// # What is served
//
// A browser gets the page: those in trouble first, with the reason, and of each
// what Status and Stats have. It is plain HTML with its style in it: it loads
// nothing, runs nothing, and reads well on a telephone. Everybody else gets JSON,
// an array of objects with Status, Stats and Trouble. Queries choose:
//
//	?format=json or html   instead of what the Accept header says
//	?reflector=NAME        only those of that name
//	?refresh=5s            the page loads itself again, at most once a second
//
// # What is not
//
// There is no configuration, header or credential in it. Names, resourceVersions
// and the texts of errors are, and may come from a server or from whoever
// may create objects: the page escapes them and shows control characters and
// what turns the direction of text by their codes, and forbids the browser to run or
// load anything. An error's text may name the server, so the page is for
// those who run the program, not for the world.
//
// # Bounds
//
// A page has a row for every reflector, and details of the first 50, those in
// trouble first; the others have theirs a link away. Of quarantined objects, members
// and mailboxes the first are shown and the rest is counted, and long texts are
// cut. JSON has everything.
package debugpage
