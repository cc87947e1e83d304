"""The style sheet of every page: it fits windows of 390 to 1280 pixels and more, and asks for no
font and no file."""

__all__ = ["STYLE_SHEET"]

STYLE_SHEET = """
:root{color-scheme:light;--ink:#20242a;--soft:#5b626b;--rule:#dfe2e6;--accent:#0b5a8f}
*{box-sizing:border-box}
html{background:#fff;-webkit-text-size-adjust:100%}
body{margin:0;background:#fff;color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,"Noto Sans",sans-serif;
overflow-wrap:anywhere}
main{max-width:1216px;margin:0 auto;padding:28px 0 80px}
@media(max-width:1280px){main{margin:0 32px}}
@media(max-width:720px){main{margin:0 16px;padding-top:18px}}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .4rem;letter-spacing:-.01em;text-wrap:balance}
h2{display:inline;font-size:1.2rem;line-height:1.25;margin:0}
h3{font-size:1.02rem;margin:1.6rem 0 .5rem}
h4{font-size:.94rem;margin:0;font-weight:600;line-height:1.3}
p,li,dd{max-width:80ch}
p{margin:.5rem 0}
ul{margin:.5rem 0;padding-left:1.2rem}
li{margin:.4rem 0}
code{font:.94em ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
summary{cursor:pointer}
summary:focus-visible,button:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
details{margin:.6rem 0}
details>summary{color:var(--accent)}
details.part{margin:0;border-top:1px solid var(--rule)}
details.part:last-of-type{border-bottom:1px solid var(--rule)}
details.part>summary{padding:.6rem 0;color:var(--ink)}
details.part[open]{padding-bottom:1.4rem}
details.part>summary .quiet{margin-left:.6rem}
.told{font-size:1.06rem;margin:.2rem 0 .6rem}
.told li{margin:.5rem 0}
@media(min-width:1000px){.span3+.text .told{display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:0 44px}}
.long{columns:2 440px;column-gap:36px;font-size:.94rem}
.long li{break-inside:avoid-column}
.long li li{break-inside:auto}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.2rem;margin:.6rem 0}
.facts dt{color:var(--soft)}
.facts dd{margin:0}
@media(max-width:720px){.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.5rem}}
.note{border-left:4px solid #d9a400;background:#fff9e6;padding:.4rem .9rem;margin:.8rem 0}
.note p{margin:.2rem 0}
.note>summary{color:var(--ink)}
.quiet,.n{color:var(--soft)}
.quiet{font-size:.92rem}
.flow{display:flex;flex-wrap:wrap;gap:1.2rem 28px;align-items:flex-start}
.flow>*{flex:1 1 100%;min-width:0;max-width:100%}
.flow>.text,.flow>.span1{flex-basis:min(100%,360px)}
.flow>.span2{flex:2 1 min(100%,748px)}
figure{margin:.6rem 0 1.2rem}
figcaption{font-size:.98rem;margin:0 0 .4rem}
.foot{display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;align-items:baseline;justify-content:space-between;font-size:.88rem;margin-top:.5rem}
.foot details{margin:0;flex:1 1 auto}
.save{display:none;color:var(--soft)}
.scripted .save{display:inline}
button{font:inherit;color:var(--accent);background:none;border:1px solid var(--rule);border-radius:4px;padding:.1rem .6rem;cursor:pointer}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;list-style:none;margin:0 0 .6rem;padding:.35rem 0;font-size:.88rem;line-height:1.35;
background:#fff}
.legend li{display:flex;align-items:center;gap:.5rem;margin:0;max-width:100%}
.panel .legend{padding:0;margin:.3rem 0 0;gap:.1rem 1rem;font-size:.82rem}
.swatch{flex:none}
@media(min-width:1000px){.sticky{position:sticky;top:0;z-index:1}}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:1.2rem 28px}
.grid.narrow{grid-template-columns:repeat(auto-fit,minmax(min(100%,270px),1fr));gap:1.2rem 20px}
.grid.four{grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr))}
.panel{min-width:0;break-inside:avoid;display:grid;grid-template-rows:subgrid;grid-row:span 2;row-gap:.3rem}
.panel>div{min-width:0}
.panel h4 .n{font-weight:400;white-space:nowrap}
.panel .names{color:var(--soft);font-size:.84rem;line-height:1.3;margin:0}
.plot{display:block;width:100%;height:auto;max-width:480px}
.narrow .plot{max-width:400px}
.plot *{stroke-linejoin:round;stroke-linecap:butt}
.plot text{font-family:system-ui,-apple-system,"Segoe UI","Helvetica Neue",Arial,"Noto Sans",sans-serif}
.missing{font-size:.88rem;color:#8a4b00;margin:.2rem 0 0}
.scroll{overflow-x:auto;margin:.8rem 0 1.4rem;border:1px solid var(--rule);border-radius:4px}
.scroll:focus-visible{outline:2px solid var(--accent)}
table{border-collapse:collapse;font-size:.88rem;line-height:1.35;width:100%;font-variant-numeric:tabular-nums}
.caption{margin:1.2rem 0 0;color:#383e46;font-size:.94rem;max-width:80ch}
.caption+.scroll{margin-top:.5rem}
thead tr:first-child th{border-top:0}
th,td{padding:.36rem .6rem;text-align:start;vertical-align:top;border-top:1px solid var(--rule);overflow-wrap:normal}
thead th{vertical-align:bottom;background:#f6f7f9;font-weight:600}
tbody th{font-weight:500}
td.num,th.num{text-align:right}
td.num{white-space:nowrap}
td small{display:block;color:#8a4b00;white-space:normal}
td small.within{color:var(--soft);white-space:nowrap}
.words{display:inline-block;white-space:normal;text-align:start;min-width:min(9rem,100%)}
table.plain th,table.plain td{white-space:normal;overflow-wrap:anywhere}
table.plain tbody th{min-width:9.2rem;width:39%}
mark{background:#ffe9a8;color:inherit}
th .quiet,td .quiet{font-size:inherit;font-weight:400}
@media(min-width:721px){table.numbers tbody th{min-width:11rem}}
@media(max-width:720px){
table.numbers,table.numbers tbody{display:block}
table.numbers thead{display:none}
table.numbers tr{display:block;padding:.45rem .7rem;border-top:1px solid var(--rule)}
table.numbers tr:first-child{border-top:0}
table.numbers th,table.numbers td{display:block;border:0;padding:.06rem 0;text-align:start}
table.numbers td{display:flex;justify-content:space-between;gap:.3rem 1rem;text-align:end;white-space:normal}
table.numbers td::before{content:attr(data-name);color:var(--soft);text-align:start;flex:0 1 45%}
table.numbers td>span{flex:1 1 0;min-width:0}
table.numbers td.none{display:none}
table.numbers tbody th{font-weight:600}
}
pre{overflow-x:auto;background:#f6f7f9;padding:.7rem .9rem;border-radius:4px;font-size:.85rem;white-space:pre-wrap}
.wide{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:0 28px;align-items:start}
.wide>*{min-width:0}
@media print{.sticky{position:static}h2{break-after:avoid}.scroll{overflow:visible}.save{display:none!important}}
"""
