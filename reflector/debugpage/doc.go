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
// Reflectors, an array of objects with Status, Stats and Trouble, in the order of the
// page. Queries choose:
//
//	?format=json or html   instead of what the Accept header says
//	?reflector=NAME        only those of that name
//	?limit=500             in JSON: so many reflectors, and entries of a list
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
// trouble first; the others have theirs a link away. The first of the quarantined
// objects are shown, the members in trouble and the fullest mailboxes, and the rest is
// counted; long texts are cut. JSON has no more reflectors and no longer lists than the page
// has details, unless ?limit says otherwise, and says beside each list how many entries it leaves out.
package debugpage
