package components

// A version of HOT is a date; since 2016 they have names, too.
var versions = map[string]string{
	"2013-05-23": "2013-05-23", "2014-10-16": "2014-10-16", "2015-04-30": "2015-04-30",
	"2015-10-15": "2015-10-15", "2016-04-08": "2016-04-08",
	"2016-10-14": "2016-10-14", "newton": "2016-10-14",
	"2017-02-24": "2017-02-24", "ocata": "2017-02-24",
	"2017-09-01": "2017-09-01", "pike": "2017-09-01",
	"2018-03-02": "2018-03-02", "queens": "2018-03-02",
	"2018-08-31": "2018-08-31", "rocky": "2018-08-31",
	"2021-04-16": latestVersion, "wallaby": latestVersion,
}

const latestVersion = "2021-04-16"

// span is the versions that have something.
type span struct {
	since string
	until string // the first that does not have it any more; "": there is none
}

func (s span) has(version string) bool {
	return version >= s.since && (s.until == "" || version < s.until)
}

// functions are those that may stand in values, conditionFunctions those in conditions.
var (
	functions = map[string]span{
		"get_param":           {since: "2013-05-23"},
		"get_resource":        {since: "2013-05-23"},
		"get_attr":            {since: "2013-05-23"},
		"get_file":            {since: "2013-05-23"},
		"list_join":           {since: "2013-05-23"},
		"str_replace":         {since: "2013-05-23"},
		"resource_facade":     {since: "2013-05-23"},
		"repeat":              {since: "2015-04-30"},
		"digest":              {since: "2015-04-30"},
		"str_split":           {since: "2015-10-15"},
		"map_merge":           {since: "2016-04-08"},
		"map_replace":         {since: "2016-10-14"},
		"yaql":                {since: "2016-10-14"},
		"if":                  {since: "2016-10-14"},
		"filter":              {since: "2017-02-24"},
		"str_replace_strict":  {since: "2017-02-24"},
		"str_replace_vstrict": {since: "2017-09-01"},
		"make_url":            {since: "2017-09-01"},
		"list_concat":         {since: "2017-09-01"},
		"list_concat_unique":  {since: "2017-09-01"},
		"contains":            {since: "2017-09-01"},
		"Ref":                 {since: "2013-05-23", until: "2014-10-16"},
		"Fn::Base64":          {since: "2013-05-23", until: "2014-10-16"},
		"Fn::GetAZs":          {since: "2013-05-23", until: "2014-10-16"},
		"Fn::Join":            {since: "2013-05-23", until: "2014-10-16"},
		"Fn::MemberListToMap": {since: "2013-05-23", until: "2014-10-16"},
		"Fn::Replace":         {since: "2013-05-23", until: "2014-10-16"},
		"Fn::ResourceFacade":  {since: "2013-05-23", until: "2014-10-16"},
		"Fn::Split":           {since: "2013-05-23", until: "2014-10-16"},
		"Fn::Select":          {since: "2013-05-23", until: "2015-10-15"},
	}
	conditionFunctions = map[string]span{
		"get_param": {since: "2016-10-14"},
		"equals":    {since: "2016-10-14"},
		"not":       {since: "2016-10-14"},
		"and":       {since: "2016-10-14"},
		"or":        {since: "2016-10-14"},
		"contains":  {since: "2017-09-01"},
		"yaql":      {since: "2017-09-01"},
	}
)

// refused are those that Heat has and we do not, with why.
var refused = map[string]string{
	"yaql":                "windsock has no YAQL; say it by other functions or give it as a parameter",
	"resource_facade":     "there is no resource whose place this template takes",
	"Fn::ResourceFacade":  "there is no resource whose place this template takes",
	"Fn::GetAZs":          "windsock knows no availability zones; give them as a parameter",
	"Fn::MemberListToMap": "say it by a map",
}

// since returns the date of the template's version: the latest if it names none.
func (t *Template) since() string {
	if date, ok := versions[t.Version]; ok {
		return date
	}
	return latestVersion
}

// call returns the function that a value is a call of, and with what. A function that
// the version does not have is none: such a map is data.
func call(v any, version string, in map[string]span) (name string, args any, ok bool) {
	m, isMap := v.(map[string]any)
	if !isMap || len(m) != 1 {
		return "", nil, false
	}
	for name, args = range m {
		return name, args, in[name].since != "" && in[name].has(version)
	}
	return "", nil, false
}
