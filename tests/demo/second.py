wettest = summary["mm"].idxmax()
print(f"{wettest} is the wettest of {len(summary)}: {summary.loc[wettest, 'mm']} mm")
