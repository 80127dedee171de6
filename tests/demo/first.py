import pandas as pd

rain = pd.read_csv("rainfall.csv")
summary = rain.groupby("city").agg(mm=("rain_mm", "sum"), days=("days", "sum"))
print(summary)
by_month = rain.pivot(index="month", columns="city", values="rain_mm").loc[["Jan", "Apr", "Jul", "Oct"]]
axes = by_month.plot.bar(rot=0, ylabel="mm", title="Rain in four months")
