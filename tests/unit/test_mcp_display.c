/* SPDX-License-Identifier: Apache-2.0 */
/* What cells show: HTML as text, the other forms in structured content. */
#include "render/render.h"
#include "mcp_client.h"

static const char *const pages[][2] = {
	{ "", "" },
	{ "plain  text\n  on lines", "plain text on lines" },
	{ "<p>one<p>two</p>\n<div>three<br>four</div>", "one\ntwo\nthree\nfour" },
	{ "<h3>Title</h3>text", "### Title\ntext" },
	{ "<ul><li>a</li><li><b>b</b> c</ul>", "- a\n- b c" },
	{ "a<hr>b", "a\n---\nb" },
	{ "<pre>a  b\n  c</pre>d", "a  b\n  c\nd" },
	{ "x &lt;b&gt; &amp;amp; &quot;&#65;&#x42;&nbsp;c&rarr;", "x <b> &amp; \"AB c\xe2\x86\x92" },
	{ "&#0;|&#xd800;|&#27;[2J|&#1114112;|&#x85;", "\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd[2J|\xef\xbf\xbd|\xef\xbf\xbd" },
	{ "&bogus; & &#; &#xg; a&b", "&bogus; & &#; &#xg; a&b" },
	{ "<script>alert('<p>')</script><style>p{}</style>left", "left" },
	{ "<SCRIPT>x</Script>left<script>to the end", "left" },
	{ "a<!-- <p>no</p> -->b<!doctype html><?php?>c<!-- open", "abc" },
	{ "1 < 2 <3 and <b", "1 < 2 <3 and" },
	{ "<a title='x > y' href=\"p>q\">link</a>", "link" },
	{ "<a title='never closed>text", "text" },
	{ "<img src=x alt='a &amp; b'><img src=y>", "[image: a & b]" },
	{ "<custom-element-of-a-long-name>t</custom-element-of-a-long-name>", "t" },
	{ "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>x|y</td></tr></table>after",
	  "| a | b |\n|---|---|\n| 1 | x\\|y |\nafter" },
	{ "<table><tr><td>a<td>b<tr><td>c<td> d\n e </table>", "| a | b |\n|---|---|\n| c | d e |" },
	{ "<table><caption>Cap</caption><tr><th colspan=2>w</th><th>z</th></tr>"
	  "<tr><th rowspan='2'>r</th><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>",
	  "Cap\n| w |  | z |\n|---|---|---|\n| r | 1 | 2 |\n|  | 3 | 4 |" },
	{ "<table><tr><td>a<table><tr><td>in</td><td>side</td></tr></table></td><td>b</td></tr></table>",
	  "| a in side | b |\n|---|---|" },
	{ "<table>junk<tr>junk<td>a</td>junk<p></tr></table>", "| a |\n|---|" },
	{ "<td>no table</td>", "no table" },
	{ "<table><tr><td>a<li>b<p>c<hr>d", "| a b c d |\n|---|" },
	{ "<svg><text>one</text><text>two</text><path d='M 0'/></svg>", "one\ntwo" },
};

START_TEST(html)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_render_html(&out, pages[_i][0], strlen(pages[_i][0]), 10000);
	ck_assert_str_eq(cbx_buf_str(&out), pages[_i][1]);
}
END_TEST

START_TEST(html_bounds)
{
	_cleanup_buf_ struct cbx_buf page = { 0 }, out = { 0 };

	for (int i = 0; i < 5000; i++)
		cbx_buf_adds(&page, "<tr><td rowspan=999999 colspan=99999>word</td>");
	cbx_buf_adds(&out, "kept");
	cbx_render_html(&out, page.data, page.len, 100);
	ck_assert_uint_lt(out.len, 300);
	ck_assert_ptr_nonnull(strstr(out.data, "kept"));
	ck_assert_ptr_nonnull(strstr(out.data, "the rest is omitted"));
}
END_TEST

/* Each tag has a quote that a later tag ends, but for the last: looked for from each, that would take minutes. */
START_TEST(html_quotes_without_end)
{
	_cleanup_buf_ struct cbx_buf page = { 0 }, out = { 0 };

	cbx_buf_adds(&page, "<table>");
	for (int i = 0; i < 349000; i++)
		cbx_buf_adds(&page, "<a \">\"");
	cbx_buf_adds(&page, "\"");
	cbx_render_html(&out, page.data, page.len, 100);
	ck_assert_uint_lt(out.len, 300);
}
END_TEST

START_TEST(bundles)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf code = { 0 };
	cJSON *m = client_run(c, "show-text text/html <p>one</p>\nvalue 42", NULL);

	ck_assert_str_eq(str_at(m, "result.content.0.text"), "one\n42\n[session_id: fake-1]");
	ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(at(m, "result.structuredContent.displays.0.data"),
								  "text/html")), "<p>one</p>");
	m = client_run(c, "value 42", NULL);
	ck_assert_ptr_null(at(m, "result.structuredContent.displays"));
	cbx_buf_adds(&code, "show-text text/html ");
	for (size_t i = 0; i < CBX_BUNDLES_MAX; i++)
		cbx_buf_addc(&code, 'x');
	cbx_buf_adds(&code, "\nshow-text text/html <p>two</p>\nshow-text text/html <p>three</p>");
	m = client_run(c, code.data, NULL);
	ck_assert_ptr_nonnull(cJSON_GetObjectItem(at(m, "result.structuredContent.displays.0.data"), "text/html"));
	ck_assert_ptr_null(cJSON_GetObjectItem(at(m, "result.structuredContent.displays.1.data"), "text/html"));
	ck_assert_double_eq(cJSON_GetNumberValue(
		cJSON_GetObjectItem(at(m, "result.structuredContent.displays.1.omitted"), "text/html")), 10);
	client_free(c);
}
END_TEST

/* What shows nothing to read is looked at within a bound, and said to be what it is. */
START_TEST(much_html)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf code = { 0 };
	cJSON *m;

	for (int i = 0; i < 4; i++)
		cbx_buf_addf(&code, "page %zu word%d\n", CBX_HTML_MAX / 3, i);
	m = client_run(c, code.data, NULL);
	ck_assert_ptr_nonnull(strstr(text(m), "word1"));
	ck_assert_ptr_null(strstr(text(m), "word3"));
	ck_assert_ptr_nonnull(strstr(text(m), "[text/html, 682.7 KiB"));
	client_free(c);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, html, 0, ARRAY_SIZE(pages));
	tcase_add_test(t, html_bounds);
	tcase_add_test(t, html_quotes_without_end);
	tcase_add_test(t, bundles);
	tcase_add_test(t, much_html);
}

TEST_MAIN("mcp display", add)
